/** Facts that no request can show: exports observe them while they read the whole list again and again. */
import type { Fact } from "./Fact.ts"

export const exportFacts: ReadonlyArray<Omit<Fact, "observe">> = [
  {
    name: "list-order",
    section: "§4.4",
    question: "In which order is the whole list?"
  },
  {
    name: "places",
    section: "§4.4",
    question: "Where in the list do new records appear?"
  },
  {
    name: "page-records",
    section: "§4.4",
    question: "How many records does each page before the last have?"
  },
  {
    name: "short-pages",
    section: "§4.4",
    question: "Can a page before the last have fewer records than others?"
  },
  {
    name: "skipped-records",
    section: "§4.4",
    question: "Does the list skip records that a filter finds?"
  },
  {
    name: "references",
    section: "§2",
    question: "Has each new record another reference than those before?"
  }
]
