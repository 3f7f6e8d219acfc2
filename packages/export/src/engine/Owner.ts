/** Whose data a store holds, as far as its rows and what it is bound to show. */
import { Lists, merchantIdOf } from "@payments/core"
import { Effect } from "effect"
import type { Owner, OwnerClaim, SinkError } from "../Sink.ts"
import { columnsOf } from "./Columns.ts"
import type { Store } from "./Store.ts"

/** Whose data is in the tables of these lists. Without a known key, fingerprints take this salt. */
export const ownerOf = Effect.fnUntraced(function*(
  store: Store,
  salt: string,
  lists: ReadonlyArray<Lists.AnyList>
): Effect.fn.Return<Owner, SinkError> {
  const { keys, merchants } = yield* store.owner
  const filled: Array<Lists.ListName> = []
  for (const list of lists) {
    const { nextRow } = yield* store.find(list, [])
    if (nextRow > 0) filled.push(list.name)
  }
  // A version that binds merchant ids also binds a key.
  const bound = merchants.length + keys.length > 0
  return {
    salt: keys[0]?.salt ?? salt,
    keys,
    merchants: bound
      ? merchants
      : (yield* Effect.forEach(filled, (name) => merchantsInRows(store, Lists.byName[name]))).flat(),
    bound,
    filled
  }
})

/** Rows at either end of a list that are searched for merchant ids. */
const rowsLookedAt = 5000
const rowsAtOnce = 1000

/** The merchant ids that the first and the last rows show. An earlier version of this program bound none. */
const merchantsInRows = Effect.fnUntraced(function*(
  store: Store,
  list: Lists.AnyList
): Effect.fn.Return<ReadonlyArray<string>, SinkError> {
  const column = columnsOf(list).find(({ path: [field] }) => field === list.merchantIdIn)?.name
  if (column === undefined) return []
  const { nextRow } = yield* store.find(list, [])
  const found = new Set<string>()
  for (let after = -1; after < nextRow - 1;) {
    const rows = yield* store.rows(list, after, rowsAtOnce)
    for (const { cells, id } of rows) {
      const paymentUrl = cells[column]
      const merchant = typeof paymentUrl === "string" ? merchantIdOf({ id, paymentUrl }) : undefined
      if (merchant !== undefined) found.add(merchant)
    }
    const last = rows.at(-1)?.row ?? nextRow
    after = last + 1 < rowsLookedAt ? last : Math.max(last, nextRow - 1 - rowsLookedAt)
  }
  return [...found]
})

/** A later claim names another key only where the key has changed since. */
export const bothOf = (before: OwnerClaim | undefined, after: OwnerClaim | undefined): OwnerClaim | undefined =>
  before === undefined || after === undefined
    ? after ?? before
    : {
      key: after.key ?? before.key,
      merchants: [...before.merchants, ...after.merchants],
      isFirst: before.isFirst || after.isFirst
    }
