/**
 * The customer of a record, and the records of a customer. Both are computed, so the records of one customer among
 * millions are found without looking at the records of others.
 *
 * A block is 1,024 consecutive records. It has 1,024 places, and its own permutation from records to places. An era is
 * 64 consecutive blocks. Large customers have places in every block, regular customers in all blocks of one era, small
 * customers in one block.
 */
import { draw, permute, unpermute } from "./RecordRandom.ts"

const halfBits = 5
const blockSize = 1 << (2 * halfBits)
/** The places of each large customer in a block: 1.4 to 9.4 % of all records. */
const large = [96, 64, 48, 36, 28, 22, 18, 14]
const eraBlocks = 64
/** The number of regular customers of an era, and the places of each in a block. */
const regular = { customers: 20, places: 12 }
/** The places of the small customers of a block. The sequence repeats until the block is full. */
const small = [1, 2, 1, 3, 1, 5, 2, 8, 1, 4]

/**
 * The members of a block are its customers, numbered from 0: first the large ones, then the regular, then the small.
 * `memberAt[place]` is the member at a place. `firstPlace[member]` is the first place of a member; the last element of
 * `firstPlace` is the number of places.
 */
const { memberAt, firstPlace } = (() => {
  const members: Array<number> = []
  const starts: Array<number> = []
  const add = (places: number) => {
    const member = starts.push(members.length) - 1
    for (let place = 0; place < places && members.length < blockSize; place++) members.push(member)
  }
  for (const places of large) add(places)
  for (let member = 0; member < regular.customers; member++) add(regular.places)
  for (let member = 0; members.length < blockSize; member++) add(small[member % small.length] ?? 1)
  return { memberAt: Uint16Array.from(members), firstPlace: Uint16Array.from([...starts, blockSize]) }
})()

const firstSmall = large.length + regular.customers
const smallPerBlock = firstPlace.length - 1 - firstSmall
const perEra = regular.customers + eraBlocks * smallPerBlock

/** Customers are numbered without gaps: the large ones, then for each era its regular ones and the small ones of its blocks. */
export interface Customers {
  readonly customerOf: (index: number) => number
  /**
   * Returns the records of a customer in a list of `length` records. Returns undefined for a large customer, who has
   * too many.
   */
  readonly recordsOf: (customer: number, length: number) => Array<number> | undefined
}

/** Makes the customers of a list. `key` selects the permutations. */
export const make = (key: number): Customers => {
  const keyOf = (block: number) => draw(key, block)
  return {
    customerOf: (index) => {
      const block = Math.floor(index / blockSize)
      const member = memberAt[permute(halfBits, keyOf(block), index % blockSize)] ?? 0
      if (member < large.length) return member
      const era = Math.floor(block / eraBlocks)
      const smallBefore = member < firstSmall ? 0 : (block % eraBlocks) * smallPerBlock
      return era * perEra + smallBefore + member
    },
    recordsOf: (customer, length) => {
      if (customer < large.length) return undefined
      const era = Math.floor((customer - large.length) / perEra)
      const inEra = (customer - large.length) % perEra
      const isRegular = inEra < regular.customers
      const blockInEra = isRegular ? 0 : Math.floor((inEra - regular.customers) / smallPerBlock)
      const member = large.length + inEra - blockInEra * smallPerBlock
      const records: Array<number> = []
      const first = era * eraBlocks + blockInEra
      for (let block = first; block < (isRegular ? first + eraBlocks : first + 1); block++) {
        if (block * blockSize >= length) break
        for (let place = firstPlace[member] ?? 0; place < (firstPlace[member + 1] ?? 0); place++) {
          const index = block * blockSize + unpermute(halfBits, keyOf(block), place)
          if (index < length) records.push(index)
        }
      }
      return records
    }
  }
}
