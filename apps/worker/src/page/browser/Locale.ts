/**
 * Loaded before uPlot, which formats numbers for `navigator.language` as soon as it is loaded. Chromium under
 * `LANG=C.UTF-8` has `en-US@posix` there, which is no language tag, so uPlot would throw. The page formats its numbers
 * in English itself.
 */
const isLanguageTag = (text: string): boolean => {
  try {
    return Intl.getCanonicalLocales(text).length === 1
  } catch {
    return false // a RangeError says that it is none
  }
}

if (!isLanguageTag(navigator.language)) Object.defineProperty(navigator, "language", { value: "en-US" })
