/** The defaults of the options of scans. The help of the programs names them, and a test compares. */
import { Duration } from "effect"

export const scanDefaults = {
  /** How long a page that keeps failing is requested again. */
  patience: Duration.minutes(15),
  /** The parts that are read at the same time. */
  concurrency: 4,
  /** The share of a list's rows that one scan may mark missing. */
  missingLimit: 0.1,
  /** So many rows are never held back, unless the share is 0. Otherwise a short list could never lose a row. */
  missingRows: 3,
  /** What a scan does while another program writes the same list. */
  onLocked: "refuse"
} as const
