/**
 * Explains that the system lacks what every program needs: a working folder, files that it may open, processes and
 * threads.
 */

/**
 * Returns what the system lacks and what to do, if that is why something failed. The message is searched, because an
 * error of a thread that could not start has the code only there.
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
