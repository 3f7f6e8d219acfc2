/** The exit codes of `payments` and `payments-worker`. */
export const ExitCode = {
  done: 0,
  unexpected: 1,
  usage: 2,
  configuration: 3,
  notAuthorized: 4,
  refused: 5,
  rateLimited: 6,
  unavailable: 7,
  malformed: 8,
  destination: 9,
  incomplete: 10,
  differs: 11,
  stale: 12,
  interrupted: 130
} as const

/** One of {@link ExitCode}. */
export type ExitCode = typeof ExitCode[keyof typeof ExitCode]

/** Returns the lowest code that is not 0, or 0. It is the exit code of a run over several lists. */
export const lowestExitCode = (codes: ReadonlyArray<ExitCode>): ExitCode =>
  codes.filter((code) => code !== ExitCode.done).toSorted((left, right) => left - right)[0] ?? ExitCode.done
