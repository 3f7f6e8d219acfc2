/** What a program needs from the system, whatever it does: a working folder, files that it may open, processes and threads. */

/**
 * Returns a sentence about what the system lacks, with what to do, if that is why something failed. Only the messages of
 * errors of a thread that could not start have the code, so the message is searched.
 */
export const systemProblem = (error: unknown): string | undefined =>
  error instanceof Error ? problems.find(([pattern]) => pattern.test(error.message))?.[1] : undefined

const problems: ReadonlyArray<readonly [RegExp, string]> = [
  [/\buv_cwd\b/, "the working folder does not exist any more. Change to a folder that exists (cd), and run again."],
  [/\bE[MN]FILE\b/, "the process may not open more files. Raise the limit (ulimit -n 1024), and run again."],
  [
    /\b(?:spawn|Worker)\b.*\bEAGAIN\b/,
    "this user may not start more processes. Raise the limit (ulimit -u), and run again."
  ]
]
