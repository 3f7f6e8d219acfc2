/**
 * Whose a record is, and which records are a customer's: both computed, so that a customer among millions is found
 * without looking at the others.
 *
 * Records come in blocks of 1,024. In each block the large customers have a fixed number of places, those of an era (64
 * blocks) have fewer, and the rest are the handfuls of customers who are in this block alone. Which record has which
 * place is a permutation drawn for the block.
 */
import { draw, permute, unpermute } from "./Draw.ts"

const halfBits = 5
const blockSize = 1 << (2 * halfBits)
/** Places in each block of the customers that are always there: 1.4 to 9.4 % of all records. */
const large = [96, 64, 48, 36, 28, 22, 18, 14]
const eraBlocks = 64
/** Customers of an era, and the places of each in each of its blocks. */
const regular = { customers: 20, places: 12 }
/** How many records the customers of one block have, over and over. */
const handfuls = [1, 2, 1, 3, 1, 5, 2, 8, 1, 4]

/** The members of a block by place, and the first place of each with the one behind the last. */
const { memberAt, firstPlace } = (() => {
  const members: Array<number> = []
  const starts: Array<number> = []
  const add = (places: number) => {
    const member = starts.push(members.length) - 1
    for (let place = 0; place < places && members.length < blockSize; place++) members.push(member)
  }
  for (const places of large) add(places)
  for (let member = 0; member < regular.customers; member++) add(regular.places)
  for (let member = 0; members.length < blockSize; member++) add(handfuls[member % handfuls.length] ?? 1)
  return { memberAt: Uint16Array.from(members), firstPlace: Uint16Array.from([...starts, blockSize]) }
})()

const firstSmall = large.length + regular.customers
const smallPerBlock = firstPlace.length - 1 - firstSmall
const perEra = regular.customers + eraBlocks * smallPerBlock

/** Customers are numbered without gaps: the large ones, then era by era, its regular ones before those of its blocks. */
export interface Customers {
  /** The customer of a record. */
  readonly of: (index: number) => number
  /** The records below `length` of a customer, or undefined for the few who have a share of all of them. */
  readonly recordsOf: (customer: number, length: number) => Array<number> | undefined
}

/** The customers of a list. */
export const make = (key: number): Customers => {
  const keyOf = (block: number) => draw(key, block)
  return {
    of: (index) => {
      const block = Math.floor(index / blockSize)
      const member = memberAt[permute(halfBits, keyOf(block), index % blockSize)] ?? 0
      if (member < large.length) return member
      const era = Math.floor(block / eraBlocks)
      const ofEra = member < firstSmall ? 0 : (block % eraBlocks) * smallPerBlock
      return era * perEra + ofEra + member
    },
    recordsOf: (customer, length) => {
      if (customer < large.length) return undefined
      const era = Math.floor((customer - large.length) / perEra)
      const inEra = (customer - large.length) % perEra
      const isRegular = inEra < regular.customers
      const ofBlock = isRegular ? 0 : Math.floor((inEra - regular.customers) / smallPerBlock)
      const member = large.length + inEra - ofBlock * smallPerBlock
      const found: Array<number> = []
      const first = era * eraBlocks + ofBlock
      for (let block = first; block < (isRegular ? first + eraBlocks : first + 1); block++) {
        if (block * blockSize >= length) break
        for (let place = firstPlace[member] ?? 0; place < (firstPlace[member + 1] ?? 0); place++) {
          const index = block * blockSize + unpermute(halfBits, keyOf(block), place)
          if (index < length) found.push(index)
        }
      }
      return found
    }
  }
}
