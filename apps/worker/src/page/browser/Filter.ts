/**
 * The filter over the sources: by text, and by whether they need a look. It appears if there are more than a few
 * sources.
 */

const fewSources = 3

const input = (id: string) => document.getElementById(id) as HTMLInputElement | null // both are inputs in Document.ts

export const startFilter = (): void => {
  input("filter-text")?.addEventListener("input", applyFilter)
  input("filter-wrong")?.addEventListener("change", applyFilter)
  document.getElementById("filter")?.addEventListener("submit", (event) => event.preventDefault())
  applyFilter()
}

export const applyFilter = (): void => {
  const sources = [...document.querySelectorAll<HTMLElement>(".source")]
  const form = document.getElementById("filter")
  const count = document.getElementById("filter-count")
  if (form === null || count === null) return
  form.hidden = sources.length <= fewSources
  const words = (input("filter-text")?.value ?? "").toLowerCase().split(/\s+/)
  const onlyWrong = input("filter-wrong")?.checked ?? false
  let shown = 0
  for (const source of sources) {
    const matches = (!onlyWrong || source.dataset["rank"] !== "2") &&
      words.every((word) => (source.dataset["words"] ?? "").includes(word))
    if (source.hidden === matches) source.hidden = !matches
    if (matches) shown++
  }
  const text = shown === sources.length ? "" : `${shown} of ${sources.length} sources`
  if (count.textContent !== text) count.textContent = text
}
