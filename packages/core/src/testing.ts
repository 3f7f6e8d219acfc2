/** For tests: lists in memory that answer by the rules of §4. */
export * as ListCursor from "./ListCursor.ts"
export * as ListServer from "./ListServer.ts"
export * as MemoryList from "./MemoryList.ts"
