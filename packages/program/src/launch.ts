/** What a launcher needs before it loads a program. It imports no library, so that a help appears at once. */
export { isStdoutClosed } from "@payments/copy/closed-stdout"
export { hasColors } from "./terminal/ColorRule.ts"
export { fitted } from "./terminal/HelpWidth.ts"
