/**
 * Proves that canaries leave no byte behind: runs the built program over a {@link CanaryService}, and searches every
 * file that the runs have made. A proof first asserts that the canaries are found where nothing removes them.
 */
// oxlint-disable no-await-in-loop -- the runs of a proof follow one another
import { Lists } from "@payments/core"
import assert from "node:assert/strict"
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { RunResult } from "../programs/RunProgram.ts"
import type { Dice } from "../Seed.ts"
import { spawn } from "../TestProcess.ts"
import {
  type Canaries,
  canariesIn,
  type CanaryService,
  criteriaOf,
  filesIn,
  makeSearch,
  persons,
  places,
  soloId,
  type Wanted
} from "./Canaries.ts"

/** The bytes of files and of other contents, by name. */
export type Contents = ReadonlyArray<readonly [name: string, bytes: Buffer]>

export interface CanaryDestination {
  /** The value of `--to` and `--from`. */
  readonly to: string
  /** Everything that the destination has on disk. */
  readonly contents: () => Promise<Contents>
  /** Returns a copy with this name. No program may use the destination meanwhile. */
  readonly copy: (name: string) => Promise<CanaryDestination>
  readonly remove: () => Promise<void>
}

export interface CanaryKind {
  readonly name: string
  /** Returns a new, empty destination. */
  readonly open: (name: string) => Promise<CanaryDestination>
}

/** `urlOf` returns the URL of the destination in a folder. */
export const folderKind = (root: string, name: string, urlOf: (folder: string) => string): CanaryKind => {
  const open = (id: string): Promise<CanaryDestination> => {
    const folder = join(root, `${name}-${id}`)
    mkdirSync(folder, { mode: 0o700, recursive: true })
    return Promise.resolve({
      to: urlOf(folder),
      contents: () => Promise.resolve(filesIn(folder)),
      copy: (copied) => {
        cpSync(folder, join(root, `${name}-${copied}`), { recursive: true, preserveTimestamps: true })
        return open(copied)
      },
      remove: () => Promise.resolve(rmSync(folder, { recursive: true, force: true }))
    })
  }
  return { name, open }
}

/** The destinations that need no server. */
export const folderKinds = (root: string): ReadonlyArray<CanaryKind> => [
  folderKind(root, "sqlite", (folder) => `sqlite:${folder}/payments.db`),
  ...["ndjson", "csv", "parquet", "ndjson&compress=gzip", "csv&compress=zstd", "parquet&compress=gzip"].map((format) =>
    folderKind(root, format.replace("&compress=", "-"), (folder) => `file:${folder}?format=${format}`)
  )
]

export interface CanarySetting {
  /** The built program. */
  readonly program: string
  readonly canaries: Canaries
  readonly service: CanaryService
  /** A folder for temporary files of the runs. */
  readonly temporary: string
}

type Environment = Readonly<Record<string, string>>

/** The rules of the proofs, as settings. */
export const rules = {
  omit: { PAYMENTS_PERSONAL: "omit" },
  pseudonymize: { PAYMENTS_PERSONAL: "pseudonymize" },
  hold: { PAYMENTS_PERSONAL: "omit", PAYMENTS_UNDOCUMENTED: "hold" }
} as const satisfies Readonly<Record<string, Environment>>

const key = "canary key of thirty-two characters"

const everyPerson: ReadonlyArray<Wanted> = persons.map((person) => ({ person, place: "person" }))
const everyPayment: ReadonlyArray<Wanted> = persons.map((person) => ({ person, place: "payment" }))
const erasedPerson: ReadonlyArray<Wanted> = places.map((place) => ({ person: "erased", place }))
const otherPerson: ReadonlyArray<Wanted> = places.map((place) => ({ person: "other", place }))

/** Runs commands over destinations, and checks what they leave. */
export class CanaryProof {
  readonly #setting: CanarySetting
  readonly #temporary: string
  /** Everything that the runs have printed since the last check. */
  #printed: Array<readonly [string, Buffer]> = []

  constructor(setting: CanarySetting, name: string) {
    this.#setting = setting
    this.#temporary = join(setting.temporary, name.replaceAll(/\W/g, "-"))
    mkdirSync(this.#temporary, { recursive: true })
  }

  /** With `killAfterMs`, kills the program after that time. */
  async run(
    args: ReadonlyArray<string>,
    env: Environment = {},
    { input = "", killAfterMs }: { readonly input?: string; readonly killAfterMs?: number } = {}
  ): Promise<RunResult> {
    const child = spawn(process.execPath, [this.#setting.program, ...args], {
      env: {
        XDG_CONFIG_HOME: "/dev/null",
        TMPDIR: this.#temporary,
        PAYMENTS_BASE_URL: this.#setting.service.url,
        PAYMENTS_API_KEY: "key",
        PAYMENTS_PERSONAL_KEY: key,
        PAYMENTS_MISSING_LIMIT: "100%",
        ...env
      },
      stdio: ["pipe", "pipe", "pipe"]
    })
    const [out, err]: [Array<Buffer>, Array<Buffer>] = [[], []]
    child.stdout.on("data", (chunk: Buffer) => out.push(chunk))
    child.stderr.on("data", (chunk: Buffer) => err.push(chunk))
    // The program may end before it has read its input.
    child.stdin.on("error", () => {})
    child.stdin.end(input)
    const timer = killAfterMs === undefined ? undefined : setTimeout(() => child.kill("SIGKILL"), killAfterMs)
    const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve) =>
      child.once("close", (...ended) => resolve(ended))
    )
    clearTimeout(timer)
    const [stdout, stderr] = [Buffer.concat(out), Buffer.concat(err)]
    const command = `payments ${args[0]}`
    this.#printed.push([`stdout of ${command}`, stdout], [`stderr of ${command}`, stderr])
    return { code, signal, stdout: stdout.toString("utf8"), stderr: stderr.toString("utf8") }
  }

  /** Fails unless the run succeeds. */
  async succeed(
    args: ReadonlyArray<string>,
    env?: Environment,
    options?: { readonly input?: string }
  ): Promise<void> {
    const { code, stderr } = await this.run(args, env, options)
    assert.equal(code, 0, `payments ${args[0]}: ${stderr}`)
  }

  /** Exports all lists. Records that do not match the document give exit code 10. */
  async export({ to }: CanaryDestination, env: Environment = {}, version?: number): Promise<void> {
    if (version !== undefined) this.#setting.service.serve(version)
    const { code, stderr } = await this.run(["export", "--to", to, "--log-level", "debug"], env)
    assert.ok(code === 0 || code === 10, `payments export: ${stderr}`)
  }

  /** Returns where the canaries are: in the destination, in what was printed, and in temporary files. */
  async find(destination: CanaryDestination, wanted: ReadonlyArray<Wanted>): Promise<ReadonlyArray<string>> {
    const search = makeSearch(this.#setting.canaries, wanted)
    return [...await destination.contents(), ...this.#printed, ...filesIn(this.#temporary)].flatMap(
      ([name, bytes]) => search(name, bytes)
    )
  }

  async assertNone(destination: CanaryDestination, wanted: ReadonlyArray<Wanted>, when: string): Promise<void> {
    assert.deepEqual(await this.find(destination, wanted), [], when)
  }

  async assertSome(destination: CanaryDestination, wanted: ReadonlyArray<Wanted>, when: string): Promise<void> {
    for (const one of wanted) assert.notDeepEqual(await this.find(destination, [one]), [], `${one.person} ${when}`)
  }

  /**
   * Fills a destination with every canary of three versions of the service, and checks that they are there. Returns how
   * many.
   */
  async fill(destination: CanaryDestination): Promise<number> {
    for (const version of [1, 2, 3]) await this.export(destination, {}, version)
    const contents = await destination.contents()
    const found = canariesIn(this.#setting.canaries, contents.map(([, bytes]) => bytes))
    assert.ok(found.size >= 200, `${found.size} canaries are in a destination that keeps all fields`)
    await this.assertSome(destination, [...everyPerson, ...everyPayment], "in a destination that keeps all fields")
    for (const [name, bytes] of contents.filter(([file]) => /\.(ndjson|csv|parquet)/.test(file))) {
      assert.notDeepEqual(makeSearch(this.#setting.canaries, everyPerson)(name, bytes), [], `${name} has canaries`)
    }
    // What was printed until now is checked too: a name of a field that is a value is not printed.
    const search = makeSearch(this.#setting.canaries, [...everyPerson, ...everyPayment])
    assert.deepEqual(this.#printed.flatMap(([name, bytes]) => search(name, bytes)), [])
    return found.size
  }

  /** Exports with a rule from the first export on. Returns how many canaries are left: those that identify payments. */
  async proveRule(kind: CanaryKind, rule: keyof typeof rules, id: string): Promise<number> {
    const destination = await kind.open(id)
    for (const version of [1, 2, 3, 3]) await this.export(destination, rules[rule], version)
    for (const list of Lists.all) await this.run(["export", list.label, "--to", "-"], rules[rule])
    const compared = await this.run(["verify", "--from", destination.to, "--against-api"], rules[rule])
    // The service no longer returns the records of one shape. Nothing else differs.
    assert.equal(compared.code, 11, compared.stderr)
    assert.doesNotMatch(compared.stdout, /^ +(?!.*-gone: is not in the API's list)/m)
    await this.assertNone(destination, everyPerson, `after exports with ${rule}`)
    // The rule keeps what identifies a payment, so the search does find what is there.
    await this.assertSome(destination, everyPayment, `after exports with ${rule}`)
    const contents = await destination.contents()
    await destination.remove()
    return canariesIn(this.#setting.canaries, contents.map(([, bytes]) => bytes)).size
  }

  /** Carries a rule out over copies of a filled destination, as {@link KilledRuns} says. */
  async proveRewrite(filled: CanaryDestination, runs: KilledRuns): Promise<Kills> {
    return await this.#proveKilled(filled, "rewrite", runs, {
      run: (destination, options) => this.run(["rewrite", "--to", destination.to], rules.omit, options),
      isUnfinished: async ({ to }) =>
        member(await this.#json(["rewrite", "--to", to, "--dry-run"], rules.omit), "unfinished") === true,
      check: async (destination, when) => {
        await this.assertNone(destination, everyPerson, when)
        await this.assertSome(destination, everyPayment, when)
      },
      env: rules.omit
    })
  }

  /** Erases a person from copies of a filled destination, as {@link KilledRuns} says. */
  async proveErase(filled: CanaryDestination, runs: KilledRuns): Promise<Kills> {
    const { customerId, documentNumber } = criteriaOf(this.#setting.canaries, "erased")
    const customerFile = join(this.#temporary, "customer")
    return await this.#proveKilled(filled, "erase", runs, {
      run: async ({ to }, options) => {
        writeFileSync(customerFile, customerId)
        const result = await this.run(
          [
            "erase",
            `--from=${to}`,
            "--by=tester",
            `--id=${soloId}`,
            "--document-number=@-",
            `--customer-id=@${customerFile}`
          ],
          {},
          { ...options, input: documentNumber }
        )
        rmSync(customerFile)
        return result
      },
      isUnfinished: async ({ to }) => {
        const erasures = await this.#json(["erasures", "--from", to])
        return Array.isArray(erasures) && erasures.some((erasure) => member(erasure, "completed_at") === null)
      },
      check: async (destination, when) => {
        await this.assertNone(destination, erasedPerson, when)
        await this.assertSome(destination, otherPerson, when)
      },
      env: {}
    })
  }

  async #json(args: ReadonlyArray<string>, env?: Environment): Promise<unknown> {
    const { code, stderr, stdout } = await this.run([...args, "--format", "json"], env)
    assert.equal(code, 0, `payments ${args[0]}: ${stderr}`)
    return JSON.parse(stdout)
  }

  async #proveKilled(
    filled: CanaryDestination,
    name: string,
    { dice, kills }: KilledRuns,
    { check, env, isUnfinished, run }: {
      readonly run: (destination: CanaryDestination, options: { readonly killAfterMs?: number }) => Promise<RunResult>
      /** Whether the command has begun in the destination and has not completed. */
      readonly isUnfinished: (destination: CanaryDestination) => Promise<boolean>
      readonly check: (destination: CanaryDestination, when: string) => Promise<void>
      readonly env: Environment
    }
  ): Promise<Kills> {
    let wholeMs = 0
    let killed = 0
    let unfinished = 0
    for (let copy = 0; copy === 0 || killed < kills; copy++) {
      assert.ok(copy <= 5 * kills + 5, `${name}: most runs end before they are killed`)
      const destination = await filled.copy(`${name}${copy}`)
      let when = name
      if (copy > 0) {
        // The first part of a run only loads the program.
        const killAfterMs = Math.round(wholeMs * (0.3 + 0.7 * dice.below(1000) / 1000))
        when = `${name}, killed after ${killAfterMs} ms`
        const begunAt = performance.now()
        if ((await run(destination, { killAfterMs })).signal === "SIGKILL") killed++
        // The machine is faster now.
        else wholeMs = Math.min(0.95 * wholeMs, performance.now() - begunAt)
        if (await isUnfinished(destination)) unfinished++
      }
      const startedAt = performance.now()
      const { code, stderr } = await run(destination, {})
      if (copy === 0) wholeMs = performance.now() - startedAt
      assert.equal(code, 0, `${when}: ${stderr}`)
      await check(destination, when)
      await this.succeed(["verify", "--from", destination.to])
      if (killed === kills || (copy > 0 && copy % 10 === 0)) {
        for (const version of [3, 2, 3]) await this.export(destination, env, version)
        await check(destination, `${when}, and three more scans`)
        await this.succeed(["verify", "--from", destination.to])
      }
      await destination.remove()
    }
    return { killed, unfinished }
  }
}

/**
 * The runs of a command that is killed. The first copy of the destination has no kill. In each further copy, the
 * command is killed at a random moment and then run again, until so many runs were killed. Each copy is checked. The
 * last one, and every tenth one, is checked again after three more scans, because the service returns all records
 * again.
 */
export interface KilledRuns {
  readonly kills: number
  readonly dice: Dice
}

/** How many runs were killed before they ended, and how many of these had begun to write and had not completed. */
export interface Kills {
  readonly killed: number
  readonly unfinished: number
}

const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? Object.entries(value).find(([found]) => found === name)?.[1] : undefined
