/** Texts as words of a shell's command. */

/** Returns the text as one word, in quotes only if it needs them. */
export const shellWord = (text: string): string => /^[\w@%+:,./-]+$/.test(text) ? text : quotedWord(text)

/** Returns the text as one word in single quotes. */
export const quotedWord = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
