/** All facts of a list, in the order in which they are shown. A new fact is one entry. */
import type { Lists } from "@payments/core"
import { cursorLife } from "./CursorFacts.ts"
import type { Fact } from "./Fact.ts"
import { filterFacts } from "./FilterFacts.ts"
import { keyFacts } from "./KeyFacts.ts"
import { nameFacts } from "./NameFacts.ts"
import { orderFacts } from "./OrderFacts.ts"
import { pageFacts } from "./PageFacts.ts"
import { cursorSnapshot } from "./SnapshotFacts.ts"
import { transportFacts } from "./TransportFacts.ts"
import { wholeFacts } from "./WholeFacts.ts"

/** `pages` is the most pages to read in search of the end of the list. */
export const factsOf = (list: Lists.AnyList, pages: number): ReadonlyArray<Fact> => [
  // The other facts use the names that these observe.
  ...nameFacts(list),
  ...pageFacts(list),
  cursorLife(),
  ...orderFacts(list, pages),
  cursorSnapshot,
  ...keyFacts(list),
  ...filterFacts(list),
  ...wholeFacts(list),
  ...transportFacts(list)
]
