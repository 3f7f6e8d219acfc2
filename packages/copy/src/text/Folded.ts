/** Returns the text without differences of case and of the spelling of accents, for searches. */
export const folded = (text: string): string => text.normalize("NFC").toLowerCase()
