/** The time of the stages of a task, from V8's CPU profile of this thread. */
import { type Profiler, Session } from "node:inspector/promises"

/**
 * The stages, each with the functions or files in which its time is spent, also in what they call. A sample counts for
 * the first of them, from the innermost function on.
 */
const stages: { readonly [stage: string]: ReadonlyArray<string | RegExp> } = {
  "JSON.parse of a body": ["openEnvelope"],
  "decoding UTF-8": ["decodeUtf8"],
  "check of records": ["decodeRecords"],
  "exact texts": ["elementsOf"],
  "fingerprints of pages": ["fingerprintIds", "fingerprintCursor"],
  "records of a batch": ["toPageBatch", "withText"],
  "SHA-256": ["contentHash"],
  "rows by their ids": ["find", "findOver"],
  "plan": ["plan"],
  "cells": ["planWrite"],
  "inserting and updating": ["change"],
  "begin and commit": ["transaction"],
  "garbage collection": ["(garbage collector)"],
  "HTTP": [/undici|^node:(?:net|internal\/stream)/],
  "Effect": [/effect\/(?:src|dist)/]
}

const stageOf = ({ functionName, url }: Profiler.ProfileNode["callFrame"]): string | undefined =>
  Object.keys(stages).find((stage) =>
    stages[stage]?.some((one) => typeof one === "string" ? one === functionName : one.test(url))
  )

/** Runs a task, and returns the milliseconds of each stage. */
export const profiled = async (task: () => Promise<unknown>): Promise<{ readonly [stage: string]: number }> => {
  const session = new Session()
  session.connect()
  await session.post("Profiler.enable")
  await session.post("Profiler.setSamplingInterval", { interval: 250 })
  await session.post("Profiler.start")
  await task()
  const { profile } = await session.post("Profiler.stop")
  session.disconnect()
  return timesOf(profile)
}

const timesOf = ({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile) => {
  const parents = new Map(nodes.flatMap((node) => (node.children ?? []).map((child) => [child, node.id] as const)))
  const frames = new Map(nodes.map(({ callFrame, id }) => [id, callFrame]))
  const times: { [stage: string]: number } = {}
  samples.forEach((sample, index) => {
    let stage: string | undefined
    for (let id: number | undefined = sample; id !== undefined && stage === undefined; id = parents.get(id)) {
      const frame = frames.get(id)
      if (frame?.functionName === "(idle)") return
      stage = frame && stageOf(frame)
    }
    times[stage ?? "other"] = (times[stage ?? "other"] ?? 0) + (timeDeltas[index] ?? 0) / 1000
  })
  return times
}
