/** For tests: `PaymentsApi` over the records of a test, and the parts of the sandbox. */
export * as Arbitraries from "./testing/Arbitraries.ts"
export { Behaviour } from "./testing/Behaviour.ts"
export { type BoundedMap, makeBoundedMap } from "./testing/BoundedMap.ts"
export { catalogue, conditions, Fault, type FaultOf } from "./testing/Fault.ts"
export { type Inject, makeInjector } from "./testing/FaultInjector.ts"
export { layerTest, type TestLists, type TestRecords } from "./testing/LayerTest.ts"
export * as ListCursor from "./testing/ListCursor.ts"
export * as ListServer from "./testing/ListServer.ts"
export {
  type ListService,
  type ListServiceOptions,
  makeListService,
  type ServiceAnswer,
  type ServiceRequest
} from "./testing/ListService.ts"
export * as MemoryList from "./testing/MemoryList.ts"
export { type Encoding, json, type Reply, type Truncation } from "./testing/Reply.ts"
export { fraction, mix } from "./testing/SeededRandom.ts"
export { layerClient } from "./testing/ServiceClient.ts"
export { serviceTime } from "./testing/ServiceTime.ts"
