/**
 * How a receiver fails: faults of answers from the catalogue, with the same conditions. A receiver may have applied the
 * changes before it fails, so that the sender repeats what was applied.
 */
import { Lists } from "@payments/core"
import { type catalogue, type Fault, type ListServer, makeInjector, type Reply } from "@payments/core/testing"
import { Result } from "effect"
import { faultsFromJson } from "../control/Scenario.ts"

/** The faults that a receiver can have, and whether it has applied the changes by then, unless `applied` says otherwise. */
export const receiverFaults = {
  latency: true,
  status: false,
  redirect: false,
  reset: true,
  close: true,
  stall: true,
  drip: true,
  truncate: true,
  header: true
} as const satisfies { readonly [Name in keyof typeof catalogue]?: boolean }

type FaultName = keyof typeof receiverFaults

/** A fault of a receiver. */
export interface ReceiverFault {
  readonly fault: Extract<Fault, { readonly fault: FaultName }>
  /** Whether the changes are applied although the sender may not learn it. */
  readonly isApplied: boolean
}

const isFaultName = (name: string): name is FaultName => Object.hasOwn(receiverFaults, name)

const isReceiverFault = (fault: Fault): fault is ReceiverFault["fault"] => isFaultName(fault.fault)

const withDefault = (fault: ReceiverFault["fault"], applied?: boolean): ReceiverFault => ({
  fault,
  // A receiver that says 2xx and has applied nothing would lose changes, which no sender can prevent.
  isApplied: fault.fault === "status" && fault.status < 300 || (applied ?? receiverFaults[fault.fault])
})

/** A named set of faults. */
interface ReceiverScenario {
  readonly description: string
  readonly faults: ReadonlyArray<ReceiverFault>
}

/** With each of them, a hand-off delivers every change in the end, but for `gone`. */
export const receiverScenarios = {
  flaky: {
    description: "Sometimes an error, and sometimes the answer is lost after the changes were applied.",
    faults: [
      withDefault({ fault: "status", status: 503, retryAfter: 0, rate: 0.2 }),
      withDefault({ fault: "close", rate: 0.1 }),
      withDefault({ fault: "status", status: 500, rate: 0.1 }, true)
    ]
  },
  slow: {
    description: "Answers take up to two seconds.",
    faults: [withDefault({ fault: "latency", ms: 200, jitterMs: 1800 })]
  },
  late: {
    description: "Every third request is applied, and never answered.",
    faults: [withDefault({ fault: "stall", at: "headers", every: 3 })]
  },
  down: {
    description: "The first five requests fail.",
    faults: [withDefault({ fault: "status", status: 503, retryAfter: 1, to: 5 })]
  },
  moved: {
    description: "Every request is redirected.",
    faults: [withDefault({ fault: "redirect", location: "/elsewhere", status: 307 })]
  },
  gone: {
    description: "The receiver wants nothing more (410).",
    faults: [withDefault({ fault: "status", status: 410 })]
  }
} as const satisfies { readonly [name: string]: ReceiverScenario }

/** Decodes faults from JSON text: a fault or an array of them. Each may have `applied`. Fails with the problem. */
export const receiverFaultsFromJson = (text: string): Result.Result<ReadonlyArray<ReceiverFault>, string> => {
  const parsed = Result.try({ try: (): unknown => JSON.parse(text), catch: () => "the text is not JSON" })
  return Result.flatMap(parsed, (value) => {
    const given: ReadonlyArray<unknown> = Array.isArray(value) ? value : [value]
    return Result.all(given.map((one, index) => receiverFaultOf(one, index)))
  })
}

const receiverFaultOf = (value: unknown, index: number): Result.Result<ReceiverFault, string> => {
  const { applied, ...own }: { readonly applied?: unknown } = typeof value === "object" && value !== null ? value : {}
  if (applied !== undefined && typeof applied !== "boolean") {
    return Result.fail(`fault ${index}: applied must be a boolean`)
  }
  return Result.flatMap(faultsFromJson(JSON.stringify(own)), ([fault]) =>
    fault !== undefined && isReceiverFault(fault)
      ? Result.succeed(withDefault(fault, applied))
      : Result.fail(`fault ${index}: a receiver can have ${Object.keys(receiverFaults).join(", ")}`))
}

/** How a request is answered. */
export interface Answered {
  readonly reply: Reply
  readonly isApplied: boolean
  readonly faults: ReadonlyArray<Fault["fault"]>
}

/** A request, for the conditions of faults. */
export interface FaultyRequest {
  /** The list's name, as on the command line. */
  readonly list: string
  readonly id: string
  readonly now: number
}

const noPage: ListServer.ListServer = () => ({ _tag: "Page", items: [], next: null, count: 0 })

/** Returns a function that gives the answer to a request: `reply`, unless a fault applies. */
export const makeAnswers = (faults: ReadonlyArray<ReceiverFault>, seed: number, since: number) => {
  const [before, after] = [false, true].map((isApplied) =>
    makeInjector(faults.filter((one) => one.isApplied === isApplied).map(({ fault }) => fault), seed, since)
  ) as [ReturnType<typeof makeInjector>, ReturnType<typeof makeInjector>] // of two values
  return (request: FaultyRequest, reply: Reply): Answered => {
    const list = Lists.all.find(({ label }) => label === request.list)?.name ?? "invoices"
    const incoming = {
      list,
      request: { filters: {}, limit: 1, cursor: undefined },
      now: request.now,
      query: request.id,
      key: ""
    }
    const lost = before(incoming, noPage, () => reply)
    const kept = after(incoming, noPage, () => lost.reply)
    return { reply: kept.reply, isApplied: lost.applied.length === 0, faults: [...lost.applied, ...kept.applied] }
  }
}
