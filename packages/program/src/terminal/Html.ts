/** HTML text. Values in an {@link html} template are escaped, so that no text from outside becomes markup. */

/** Markup that is safe to send. */
export class Html {
  readonly markup: string
  constructor(markup: string) {
    this.markup = markup
  }
}

/** A value of a template: markup stays, text is escaped, and `undefined` is empty. */
export type Content = Html | string | number | undefined | ReadonlyArray<Content>

/** Makes markup. Line breaks of the template and the indentation after them are removed. */
export const html = (strings: TemplateStringsArray, ...values: ReadonlyArray<Content>): Html => {
  const parts = unindented(strings)
  let markup = parts[0] ?? ""
  for (let i = 0; i < values.length; i++) markup += markupOf(values[i]) + (parts[i + 1] ?? "")
  return new Html(markup)
}

const markupOf = (value: Content): string => {
  if (value === undefined) return ""
  if (value instanceof Html) return value.markup
  return typeof value === "object" ? value.map(markupOf).join("") : escape(String(value))
}

/** Each template is a constant of the source text, so this map does not grow. */
const cache = new WeakMap<TemplateStringsArray, ReadonlyArray<string>>()

const unindented = (strings: TemplateStringsArray): ReadonlyArray<string> => {
  let parts = cache.get(strings)
  if (parts === undefined) {
    parts = strings.map((part) => part.replaceAll(/\n\s*/g, ""))
    cache.set(strings, parts)
  }
  return parts
}

const entities: { readonly [character: string]: string } = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  "\"": "&quot;",
  "'": "&#39;"
}

/** Control characters, and characters that change the direction of the text around them, become U+FFFD. */
const escape = (text: string): string =>
  text.replaceAll(/[&<>"']/g, (character) => entities[character] ?? "")
    // oxlint-disable-next-line no-control-regex -- These are the characters that must not reach the page.
    .replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\uFFFD")
