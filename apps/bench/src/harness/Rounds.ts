/**
 * The one way to measure things side by side: in turn, for several rounds, so that other load on the machine affects
 * all.
 */

/** What one run of a case measured. */
export interface Measured {
  readonly ms: number
  /** The largest resident set of the process, in bytes. */
  readonly peakRss?: number
}

export interface Rounds {
  /** Measured rounds. */
  readonly rounds: number
  /** Whether a round that is not measured runs first. */
  readonly warmUp?: boolean
  readonly log: (line: string) => void
}

/** Runs each case once per round. Returns what the measured rounds gave, by case. */
export const inTurn = async <const Name extends string, A extends Measured>(
  cases: { readonly [name in Name]: (round: number) => Promise<A> },
  { log, rounds, warmUp = true }: Rounds
): Promise<{ readonly [name in Name]: ReadonlyArray<A> }> => {
  const runs = Object.entries<(round: number) => Promise<A>>(cases).map(([name, run]) => ({
    name,
    run,
    measured: Array<A>()
  }))
  for (let round = warmUp ? 0 : 1; round <= rounds; round++) {
    for (const { measured, name, run } of runs) {
      const one = await run(round)
      if (round > 0) measured.push(one)
      const memory = one.peakRss === undefined ? "" : `, peak RSS ${(one.peakRss / 2 ** 20).toFixed(0)} MiB`
      log(`${round === 0 ? "warm-up" : `round ${round} of ${rounds}`}: ${name}: ${one.ms.toFixed(0)} ms${memory}`)
    }
  }
  // One entry for each case.
  return Object.fromEntries<ReadonlyArray<A>>(runs.map(({ measured, name }) => [name, measured])) as Record<
    Name,
    ReadonlyArray<A>
  >
}
