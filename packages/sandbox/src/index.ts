/** The public surface of `@payments/sandbox`. */
export type { Fault } from "@payments/core/testing"
export { ControlApi, type Controls, InvalidControl, NotLive } from "./control/Control.ts"
export type { Counters, LoggedRequest } from "./control/RequestLog.ts"
export {
  defaultSpeed,
  type LiveWorld,
  type OptionsOfList,
  Sandbox,
  sandboxKey,
  type SandboxOptions
} from "./control/Sandbox.ts"
export { faultsFromJson, type Scenario, type ScenarioName, scenarios } from "./control/Scenario.ts"
export { records } from "./generate/Generator.ts"
export type { OrderName } from "./generate/ListOrder.ts"
export type { ChangesFileError } from "./receive/ChangesFile.ts"
export type { DeliveryKind } from "./receive/Deliveries.ts"
export {
  receive,
  type Received,
  type Receiver,
  type ReceiverOptions,
  type ReceiverSummary
} from "./receive/Receiver.ts"
export {
  type ReceiverFault,
  receiverFaults,
  receiverFaultsFromJson,
  receiverScenarios
} from "./receive/ReceiverFaults.ts"
export { type ListenOptions, SandboxError } from "./serve/SocketServer.ts"
export * as World from "./serve/World.ts"
