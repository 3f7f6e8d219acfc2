/** Determines the owner of a destination from the keys and merchant ids that it is bound to, or from its rows. */
import { Lists, merchantIdOf } from "@payments/core"
import { Effect } from "effect"
import { columnsOf } from "../plan/Columns.ts"
import type { BoundMerchant, OwnerClaim, SinkError } from "../port/Sink.ts"
import type { Owner, Store } from "../store/Store.ts"

/** If the destination has no key yet, its fingerprints will use `salt`. */
export const ownerOf = Effect.fnUntraced(function*(
  store: Store,
  salt: string,
  lists: ReadonlyArray<Lists.AnyList>,
  { keys, merchants, nextRows }: Owner
): Effect.fn.Return<BoundMerchant, SinkError> {
  const nextRowOf = ({ label }: Lists.AnyList) => nextRows.get(label) ?? 0
  const filled = lists.filter((list) => nextRowOf(list) > 0).map(({ name }) => name)
  // Every version that binds merchant ids also binds a key.
  const bound = merchants.length + keys.length > 0
  return {
    salt: keys[0]?.salt ?? salt,
    keys,
    merchants: bound
      ? merchants
      : (yield* Effect.forEach(filled, (name) => {
        const list = Lists.byName[name]
        return merchantsInRows(store, list, nextRowOf(list))
      })).flat(),
    bound,
    filled
  }
})

/** The number of rows at each end of a list that are searched for merchant ids. */
const searchedRows = 5000
const chunkRows = 1000

/** Returns the merchant ids in the first and the last rows. An earlier version of this program did not bind them. */
const merchantsInRows = Effect.fnUntraced(function*(
  store: Store,
  list: Lists.AnyList,
  nextRow: number
): Effect.fn.Return<ReadonlyArray<string>, SinkError> {
  const column = columnsOf(list).find(({ path: [field] }) => field === list.merchantIdIn)?.name
  if (column === undefined) return []
  const found = new Set<string>()
  for (let after = -1; after < nextRow - 1;) {
    const rows = yield* store.rows(list, after, chunkRows)
    for (const { cells, id } of rows) {
      const paymentUrl = cells[column]
      const merchant = typeof paymentUrl === "string" ? merchantIdOf({ id, paymentUrl }) : undefined
      if (merchant !== undefined) found.add(merchant)
    }
    const last = rows.at(-1)?.row ?? nextRow
    after = last + 1 < searchedRows ? last : Math.max(last, nextRow - 1 - searchedRows)
  }
  return [...found]
})

/** The later claim has a key only if the key has changed since the earlier one. */
export const mergeClaims = (before: OwnerClaim | undefined, after: OwnerClaim | undefined): OwnerClaim | undefined =>
  before === undefined || after === undefined
    ? after ?? before
    : {
      key: after.key ?? before.key,
      merchants: [...before.merchants, ...after.merchants],
      isFirst: before.isFirst || after.isFirst
    }
