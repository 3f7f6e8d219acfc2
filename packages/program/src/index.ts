/** The public surface of `@payments/program`. */
export * as contract from "./contract/index.ts"
export * as Doctor from "./doctor/Doctor.ts"
export { exitCodeOf, outcomeExitCode } from "./outcome/ErrorTable.ts"
export { ExitCode, lowestExitCode } from "./outcome/ExitCode.ts"
export {
  checkAll,
  CommandExit,
  exitCodes,
  factsOf,
  type Next,
  nextMembers,
  type ProgramError,
  programExitCodeOf,
  usage,
  withNext
} from "./outcome/ProgramError.ts"
export {
  drawProgress,
  eraseProgress,
  flushOrEnd,
  handleOutputErrors,
  lineLogger,
  logLine,
  logNote,
  print,
  printOrEnd,
  requireOutput
} from "./run/ConsoleOutput.ts"
export {
  copyOf,
  destinationOf,
  fromDestination,
  fromDestinationIfAny,
  fromFlag,
  openSettingsOf,
  sourceOfDestination,
  sourcesOfDestinations,
  storedDestinationOf,
  toDestination,
  toFlag
} from "./run/DestinationFlags.ts"
export { isLoopback, type ListenProblem, listenProblem } from "./run/ListenProblem.ts"
export { withCurrentNames } from "./run/OldNames.ts"
export { byFlag, personOf } from "./run/PersonFlag.ts"
export { handOverSignals, LogLevelFlag, run, teardown } from "./run/RunCommand.ts"
export { chosenScanOptionsOf, scanFlags } from "./run/ScanFlags.ts"
export { checkPaths } from "./settings/CheckedPaths.ts"
export {
  optionalFlag,
  rangeFlag,
  settingFlag,
  settingFlags,
  switchFlag,
  textFlag,
  wholeNumberFlag
} from "./settings/Flags.ts"
export { duration, interval, type SettingParser, wholeNumber } from "./settings/Parsers.ts"
export { given as settingGiven, setting, valueGiven, variableText } from "./settings/Setting.ts"
export { allSettings } from "./settings/SettingTable.ts"
export {
  chosenBoundTo,
  chosenConfig,
  chosenJournal,
  chosenPersonal,
  chosenRateLimitStore,
  ChosenSource,
  ConfigFlag,
  environmentPersonal,
  flagsOfSource,
  SourceFlag
} from "./sources/ChosenSource.ts"
export { savedStatement } from "./sources/SavedStatement.ts"
export type { JournalSettings, StatementSettings } from "./sources/SourceSchema.ts"
export * as MetricDefinitions from "./telemetry/MetricDefinitions.ts"
export type { ObservedList } from "./telemetry/MetricFacts.ts"
export {
  limitSeconds,
  Metrics,
  observedOpen,
  type ObservedSettings,
  observeSink,
  openQuestion
} from "./telemetry/Metrics.ts"
export { wordsIn } from "./terminal/HelpWidth.ts"
export { quotedWord, shellWord } from "./terminal/ShellWord.ts"
export { canColor, canRedraw, canRedrawScreen, terminalWidth } from "./terminal/TerminalRules.ts"
export { ageAndLimit, ageText, durationWords } from "./text/Ages.ts"
export { haltAdvice, type HaltCommand, haltCommands, type Halted, haltText } from "./text/HandoffHalts.ts"
export { brokenInto } from "./text/Lines.ts"
export { counted, grouped } from "./text/Numbers.ts"
export { allOf, anyOf } from "./text/WordLists.ts"
