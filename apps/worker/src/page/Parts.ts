/** Small parts that several fragments of the page use. */
import { type Html, html } from "@payments/program/html"
import type { Verdict } from "./Diagnosis.ts"

/** A symbol of the sprite in the page. The text beside it says the same. */
export const icon = (name: string): Html =>
  html`<svg class="icon" aria-hidden="true"><use href="#icon-${name}"></use></svg>`

export const badge = ({ tone, word }: Verdict): Html => html`<span class="badge ${tone}">${icon(tone)}${word}</span>`

/** A bar of a share from 0 to 1. The text beside it says the same. A share above 0 is visible. */
export const bar = (share: number, kind: string): Html =>
  html`<svg class="bar ${kind}" aria-hidden="true" viewBox="0 0 1000 1" preserveAspectRatio="none"><rect width="${
    share > 0 ? Math.max(5, Math.round(share * 1000)) : 0
  }" height="1"></rect></svg>`
