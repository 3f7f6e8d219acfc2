/**
 * The messages between a sink in a worker thread and its client: calls of the members of the sink and of what it opens.
 * Members are named by their paths, so a new method of `Sink` needs nothing here, unless it opens a resource.
 */
import { Lists } from "@payments/core"
import { Effect, Predicate, Record } from "effect"
import type { ErrorMessage } from "../port/ErrorMessage.ts"
import type { Batch, ScanProgress } from "../port/Sink.ts"
import { type BatchMessage, fromBatch, toBatch } from "./BatchMessage.ts"

/** The methods whose results stay open until their scope closes. All others need no scope. */
export const resources: ReadonlySet<string> = new Set(["open", "lock", "begin", "passes.begin"])

/** The method of a session that returns its progress. The results of other calls come with the progress. */
export const progressMethod = "commit"

/** The number of the object that opens and closes others: `open` a sink, `close` what a request has opened. */
export const opener = 0

/** A message to the thread: a call, or the cancellation of an earlier call with the same number. */
export type SinkRequest =
  | {
    readonly id: number
    /** The number of the object: that of the call that opened it, or {@link opener}. */
    readonly target: number
    /** The member of the object, such as `inspect.owner`. */
    readonly path: string
    readonly parameters: ReadonlyArray<Parameter>
  }
  | { readonly id: number; readonly path: "cancel" }

/** A message from the thread: the response to the call with the same number. */
export type SinkResponse =
  | {
    readonly id: number
    /** The result. That of a call that opens a resource is a {@link Description}. */
    readonly value: unknown
    /** The progress of the session after the call, if the object is one and the result does not say it. */
    readonly progress?: ScanProgress
  }
  | { readonly id: number; readonly error: ErrorMessage }
  | { readonly id: number; readonly defect: string }

/** A parameter of a call. Lists are known in both threads, and their schemas cannot be copied. */
export type Parameter =
  | { readonly type: "lists"; readonly names: ReadonlyArray<Lists.ListName>; readonly isOne: boolean }
  | { readonly type: "batch"; readonly batch: BatchMessage }
  | { readonly type: "value"; readonly value: unknown }

export const fromParameter = (value: unknown): Parameter => {
  if (isList(value)) return { type: "lists", names: [value.name], isOne: true }
  if (Array.isArray(value) && value.every(isList)) {
    return { type: "lists", names: value.map(({ name }) => name), isOne: false }
  }
  return isBatch(value) ? { type: "batch", batch: fromBatch(value) } : { type: "value", value }
}

export const toParameter = (parameter: Parameter): unknown => {
  switch (parameter.type) {
    case "lists": {
      const lists = parameter.names.map((name) => Lists.byName[name])
      return parameter.isOne ? lists[0] : lists
    }
    case "batch":
      return toBatch(parameter.batch)
    case "value":
      return parameter.value
  }
}

/** A program may have opened the destination with other definitions of the lists, of the same names. */
const isList = (value: unknown): value is Lists.AnyList =>
  Predicate.hasProperty(value, "name") && Predicate.hasProperty(value, "filters") &&
  Object.hasOwn(Lists.byName, String(value.name))

const isBatch = (value: unknown): value is Batch =>
  Predicate.hasProperty(value, "records") && Predicate.hasProperty(value, "checkpoint")

/** What an object has: values, which are copied, and functions and effects, which become calls. */
export type Description =
  | { readonly type: "value"; readonly value: unknown }
  | { readonly type: "function" | "effect" }
  | { readonly type: "object"; readonly members: { readonly [name: string]: Description } }

export const describe = (value: unknown): Description => {
  if (Effect.isEffect(value)) return { type: "effect" }
  if (typeof value === "function") return { type: "function" }
  return Predicate.isObject(value) && Object.getPrototypeOf(value) === Object.prototype
    ? { type: "object", members: Record.map({ ...value }, describe) }
    : { type: "value", value }
}

/** `call` makes the call of a path. */
export const fromDescription = (
  description: Description,
  call: (path: string, parameters: ReadonlyArray<unknown>) => Effect.Effect<unknown, unknown, unknown>,
  path = ""
): unknown => {
  switch (description.type) {
    case "value":
      return description.value
    case "effect":
      return call(path, [])
    case "function":
      return (...parameters: ReadonlyArray<unknown>) => call(path, parameters)
    case "object":
      return Record.map(
        description.members,
        (member, name) => fromDescription(member, call, path === "" ? name : `${path}.${name}`)
      )
  }
}
