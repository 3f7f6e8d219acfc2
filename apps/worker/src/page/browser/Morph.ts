/**
 * Changes an element into another one with as few changes as possible, so that focus, selected text, opened details and
 * scroll positions stay.
 */

/** The worker has escaped the text in the HTML. */
export const parse = (html: string): Element | undefined => {
  const template = document.createElement("template")
  template.innerHTML = html
  return template.content.firstElementChild ?? undefined
}

/** Attributes that the browser or this script sets: opened details, and what the filter hides. */
const kept = new Set(["open", "hidden"])

/** Children are matched by their place. The content of a plot belongs to its chart. */
export const morph = (from: Element, to: Element): void => {
  for (const { name } of Array.from(from.attributes)) {
    if (!to.hasAttribute(name) && !kept.has(name)) from.removeAttribute(name)
  }
  for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value)
  if (isPlot(from)) return
  const wanted = [...to.childNodes]
  const existing = [...from.childNodes]
  for (const [index, child] of wanted.entries()) {
    const old = existing[index]
    if (old === undefined) from.append(child)
    else if (old instanceof Element && child instanceof Element && isSameKind(old, child)) morph(old, child)
    else if (old instanceof Text && child instanceof Text) {
      if (old.data !== child.data) old.data = child.data
    } else old.replaceWith(child)
  }
  for (const old of existing.slice(wanted.length)) old.remove()
}

const isPlot = (element: Element): boolean => element.classList.contains("plot")

const isSameKind = (one: Element, other: Element): boolean =>
  one.localName === other.localName && one.id === other.id && isPlot(one) === isPlot(other)
