/** Escapes text that would control a terminal. */

/** Control characters, line ends, and invisible format characters, such as those that change the direction of text. */
const unprintable = /[\p{Cc}\p{Cf}\u2028\u2029]/gu

const escaped = (character: string): string =>
  character.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")

/** Code units per replacement. The matches in a long text take many times its memory, so a long text is split. */
const chunkLength = 64 * 1024

/** Escapes, as in JSON, the characters that a terminal would interpret or would not show. */
export const printable = (text: string): string => {
  if (text.length <= chunkLength) return text.replaceAll(unprintable, escaped)
  const chunks: Array<string> = []
  for (let from = 0, to = 0; from < text.length; from = to) {
    to = from + chunkLength
    // Do not split a surrogate pair.
    if ((text.codePointAt(to - 1) ?? 0) > 0xffff) to++
    chunks.push(text.slice(from, to).replaceAll(unprintable, escaped))
  }
  return chunks.join("")
}
