/** The public surface of `@payments/export`. */
export { replaceFile } from "./AtomicFile.ts"
export * as Destination from "./Destination.ts"
export { ExitCode, exitCodeOf, lowest as lowestExitCode } from "./ExitCode.ts"
export { Manifest } from "./Manifest.ts"
export { scan, scanAll, type ScanEvent, type ScanOptions, type ScanOutcome, type ScanSummary } from "./Scan.ts"
export * as SinkReason from "./Sink.ts"
export { type Batch, type ScanProgress, type ScanRequest, type ScanSession, Sink, SinkError } from "./Sink.ts"
export { type FileDifference, verifyFiles } from "./VerifyFiles.ts"
