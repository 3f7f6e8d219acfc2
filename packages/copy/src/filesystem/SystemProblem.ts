/** What a program needs from the system, whatever it does: a working folder, files that it may open, processes and threads. */

/**
 * Returns a sentence about what the system lacks, with what to do, if that is why something failed. Only the messages of
 * errors of a thread that could not start have the code, so the message is searched.
 */
export const systemProblem = (error: unknown): string | undefined =>
  !(error instanceof Error)
    ? undefined
    : /\buv_cwd\b/.test(error.message)
    ? "the working folder does not exist any more. Change to a folder that exists (cd), and run again."
    : /\bE[MN]FILE\b/.test(error.message)
    ? "the process may not open more files. Raise the limit (ulimit -n 1024), and run again."
    : /\b(?:spawn|Worker)\b.*\bEAGAIN\b/.test(error.message)
    ? "this user may not start more processes. Raise the limit (ulimit -u), and run again."
    : undefined
