/** For tests: the service and lists in memory that answer by the rules of §4, and arbitraries of what they may hold. */
import { PaymentsApi } from "./PaymentsApi.ts"

export * as Arbitraries from "./Arbitraries.ts"
export * as ListServer from "./ListServer.ts"
export * as MemoryList from "./MemoryList.ts"

/** The service in memory: the same filters, limits, cursors and errors as over HTTP. */
export const layerTest: typeof PaymentsApi.layerTest = PaymentsApi.layerTest
