/** The public surface of `@payments/export`. */
export { replaceFile } from "./AtomicFile.ts"
export { Certificate } from "./Certificate.ts"
export * as Destination from "./Destination.ts"
export { ExitCode, exitCodeOf, lowest as lowestExitCode } from "./ExitCode.ts"
export { Manifest } from "./Manifest.ts"
export {
  type PartsOptions,
  scan,
  scanAll,
  scanAllParts,
  type ScanEvent,
  type ScanOptions,
  type ScanOutcome,
  scanParts,
  type ScanSummary
} from "./Scan.ts"
export * as SinkReason from "./Sink.ts"
export { type Batch, type ScanProgress, type ScanRequest, type ScanSession, Sink, SinkError } from "./Sink.ts"
export { printable } from "./Stdout.ts"
export type { ChangeRow, FullRow, Reader } from "./Store.ts"
export { type Difference, type Verified, verify, verifyAgainstApi } from "./Verify.ts"
export { type FileDifference, verifyFiles } from "./VerifyFiles.ts"
