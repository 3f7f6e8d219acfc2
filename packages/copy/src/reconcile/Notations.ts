/** The names of what a statement may be written in. Settings use them, so this file imports nothing. */

export const separators = { comma: ",", semicolon: ";", tab: "\t", pipe: "|" } as const
export type Separator = keyof typeof separators
export const separatorNames = Object.keys(separators) as ReadonlyArray<Separator> // its own keys

export const encodings = ["utf-8", "windows-1252", "utf-16le", "utf-16be"] as const
export type Encoding = typeof encodings[number]

/** The orders of year, month and day in a date. */
export const dateOrders = ["ymd", "dmy", "mdy"] as const
export type DateOrder = typeof dateOrders[number]

/** Returns the decimals of a unit of amounts: its name, or their number from 0 to 18. */
export const decimalsOf = (text: string): number | undefined => {
  switch (text) {
    case "units":
      return 0
    case "cents":
      return 2
    case "mills":
      return 3
    default:
      return /^(?:\d|1[0-8])$/.test(text) ? Number(text) : undefined
  }
}
