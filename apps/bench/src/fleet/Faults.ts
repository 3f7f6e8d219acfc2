/**
 * The faults of the fleet test. Each hits a fleet once, at a moment that the caller chooses, and measures the takeover.
 */
import type { Dice } from "@payments/testkit/Seed"
import { setTimeout as sleep } from "node:timers/promises"
import { type Healing, wallMs } from "../harness/Link.ts"
import type { Runner } from "../harness/Runner.ts"
import { type Fleet, longest } from "./Fleet.ts"

export interface FaultOutcome {
  readonly variant: string
  /** The name under which its takeovers are reported. */
  readonly kind: string
  /** Seconds until another process worked, by source that the fault took from its process. */
  readonly takeovers: ReadonlyMap<string, number>
}

export const faults = {
  /** SIGKILL of a runner, which starts again when its sources are taken over. */
  kill: async (fleet, dice) => {
    const { leases, victim } = await pickVictim(fleet, dice)
    const [at, dead] = [wallMs(), victim.instance]
    await victim.end("SIGKILL")
    const found = await fleet.untilProgress(at, { leases, without: dead })
    victim.spawn()
    return { kind: "kill", variant: victim.name, takeovers: perSource(leases, found) }
  },
  /** SIGSTOP of a runner for 90 s. */
  freeze: async (fleet, dice) => {
    const { leases, victim } = await pickVictim(fleet, dice)
    const [at, frozen] = [wallMs(), victim.instance]
    victim.signal("SIGSTOP")
    await sleep(90_000)
    // It looks before the runner continues, so that only other processes count.
    const found = await fleet.untilProgress(at, { leases, without: frozen, timeoutMs: 0 })
    victim.signal("SIGCONT")
    return { kind: "freeze", variant: victim.name, takeovers: perSource(leases, found) }
  },
  /** `pg_terminate_backend` of all sessions, those of one runner, or those with an advisory lock. */
  terminate: async (fleet, dice) => {
    const variant = dice.pick(["all sessions", "one runner", "advisory locks"] as const)
    const runner = dice.pick(fleet.runners)
    const ports = runner.link.connections.filter(({ instance }) => instance === runner.instance).map(({ port }) => port)
    const at = wallMs()
    const { rowCount } = await fleet.client.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
      AND pid <> pg_backend_pid() AND CASE $1 WHEN 'all sessions' THEN true WHEN 'one runner' THEN client_port = ANY ($2)
      ELSE pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory') END`,
      [variant, ports]
    )
    const found = await fleet.untilProgress(at)
    return { kind: "terminate", variant: `${variant} (${rowCount ?? 0})`, takeovers: perSource(fleet.leases, found) }
  },
  /** The database is unreachable for 60 s, from one runner or from all. */
  blackhole: async (fleet, dice) => {
    const healing = dice.pick<Healing>(["late", "lost"])
    if (dice.chance(0.5)) {
      const { leases, victim } = await pickVictim(fleet, dice)
      const [at, lost] = [wallMs(), victim.instance]
      victim.link.cut()
      await sleep(60_000)
      const early = await fleet.untilProgress(at, { leases, without: lost, timeoutMs: 0 })
      victim.link.heal(healing)
      // If nobody took a source over, its own runner continues after the cut.
      const found = early.size === leases.length ? early : await fleet.untilProgress(at, { leases })
      return {
        kind: "blackhole of one runner",
        variant: `${victim.name}, ${healing}`,
        takeovers: perSource(leases, found)
      }
    }
    for (const { link } of fleet.runners) link.cut()
    await sleep(60_000)
    const healed = wallMs()
    for (const { link } of fleet.runners) link.heal(healing)
    // A commit that is delivered late is no sign of work, so the first 2 s do not count.
    const found = await fleet.untilProgress(healed + 2000)
    return { kind: "blackhole of all runners", variant: healing, takeovers: perSource(fleet.leases, found, 2) }
  },
  /** All runners are replaced, one after the other. */
  rolling: async (fleet, dice) => {
    const takeovers = new Map<string, number>()
    const order = fleet.runners.map((runner) => ({ runner, rank: dice.below(1000) })).toSorted((a, b) =>
      a.rank - b.rank
    )
    for (const { runner } of order) {
      const old = runner.instance
      const owners = await fleet.owners()
      const leases = fleet.leases.filter((lease) => owners.get(lease) === old)
      const at = wallMs()
      await fleet.stop(runner)
      runner.spawn()
      await runner.untilListening()
      const found = await fleet.untilProgress(at, { leases, without: old })
      for (const [source, seconds] of perSource(leases, found)) {
        takeovers.set(source, Math.max(seconds, takeovers.get(source) ?? 0))
      }
    }
    return { kind: "rolling", variant: order.map(({ runner }) => runner.name).join(", "), takeovers }
  }
} satisfies { readonly [name: string]: (fleet: Fleet, dice: Dice) => Promise<FaultOutcome> }

export type FaultName = keyof typeof faults

/** Picks a runner that has a source, and returns its leases. */
const pickVictim = async (fleet: Fleet, dice: Dice): Promise<{ victim: Runner; leases: ReadonlyArray<string> }> => {
  const owners = await fleet.owners()
  const busy = fleet.runners.filter(({ instance }) => [...owners.values()].includes(instance))
  const victim = dice.pick(busy)
  return { victim, leases: fleet.leases.filter((lease) => owners.get(lease) === victim.instance) }
}

/** Returns the seconds until all leases of a source had progress, by source. */
const perSource = (
  leases: ReadonlyArray<string>,
  found: ReadonlyMap<string, number>,
  extraSeconds = 0
): ReadonlyMap<string, number> => {
  const sources = Map.groupBy(leases, (lease) => lease.split(" ")[0] ?? "")
  return new Map([...sources].map(([source, own]) => [
    source,
    extraSeconds + Math.max(...own.map((lease) => found.get(lease) ?? longest)) / 1000
  ]))
}
