/** A map that forgets what was set longest ago once it holds too much: a server that runs for weeks must not grow. */

/** Entries by key, of which only so many are kept. */
export interface BoundedMap<Key, Value> {
  /** The value set last under that key, unless it is forgotten. */
  readonly get: (key: Key) => Value | undefined
  /** Keeps the value, and forgets the one set longest ago where there are too many. */
  readonly set: (key: Key, value: Value) => void
}

/** An empty map that keeps the `most` entries set last. */
export const makeBoundedMap = <Key, Value>(most: number): BoundedMap<Key, Value> => {
  const held = new Map<Key, Value>()
  return {
    get: (key) => held.get(key),
    set: (key, value) => {
      held.delete(key)
      held.set(key, value)
      const [oldest] = held.size > most ? held.keys() : []
      if (oldest !== undefined) held.delete(oldest)
    }
  }
}
