/** A map with a limited number of entries, so that a server that runs for weeks does not grow. */

/** A map that keeps the latest entries only. */
export interface BoundedMap<Key, Value> {
  /** Returns the value of the key, if the entry is still kept. */
  readonly get: (key: Key) => Value | undefined
  /** Sets the value of the key. If there are too many entries, removes the one that was set longest ago. */
  readonly set: (key: Key, value: Value) => void
}

/** Returns an empty map that keeps the latest `most` entries. */
export const makeBoundedMap = <Key, Value>(most: number): BoundedMap<Key, Value> => {
  const entries = new Map<Key, Value>()
  return {
    get: (key) => entries.get(key),
    set: (key, value) => {
      entries.delete(key)
      entries.set(key, value)
      const [oldest] = entries.size > most ? entries.keys() : []
      if (oldest !== undefined) entries.delete(oldest)
    }
  }
}
