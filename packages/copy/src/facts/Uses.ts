/** Who uses a fact once it is certain. Other facts are shown only. */

const uses: { readonly [fact: string]: string } = {
  order: "head passes",
  places: "head passes",
  count: "exports, to judge whether they have read everything",
  "limit-1000": "exports, for the size of pages"
}

export const usedBy = (fact: string): string | undefined => Object.hasOwn(uses, fact) ? uses[fact] : undefined
