import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { fetchOnce } from "@payments/testkit/FetchOnce"
import { spawnSync } from "@payments/testkit/TestProcess"
import { Effect } from "effect"
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parse, parseAllDocuments } from "yaml"
import { variables } from "../../../../packages/program/src/settings/Variables.ts"
import { sourcesOfFile } from "../../../../packages/program/src/sources/LoadSources.ts"
import { startWorker } from "../loop/RunningWorker.ts"

const root = join(import.meta.dirname, "../../../..")
const read = (file: string): string => readFileSync(join(root, "deploy", file), "utf8")
const documents = ["namespace", "deployment", "network"].flatMap((name) =>
  parseAllDocuments(read(`kubernetes/${name}.yaml`)).map((document): unknown => document.toJS())
)
const kustomization: unknown = parse(read("kubernetes/kustomization.yaml"))
const compose: unknown = parse(read("docker/compose.yaml"))

/** Returns the member at a path. */
const at = (value: unknown, ...path: ReadonlyArray<string | number>): unknown =>
  path.reduce<unknown>(
    (inner, name) => typeof inner === "object" && inner !== null ? Reflect.get(inner, name) : undefined,
    value
  )

/** Returns all values of members with this name, at any depth. */
const all = (name: string, value: unknown): ReadonlyArray<unknown> =>
  typeof value !== "object" || value === null
    ? []
    : Object.entries(value).flatMap(([key, inner]) => key === name ? [inner] : all(name, inner))

const of = (kind: string): unknown => documents.find((document) => at(document, "kind") === kind)

/** The variables that the libraries of the worker read. */
const others = new Set(["PGPASSFILE"])

describe("the deployment files", () => {
  it("use only settings that exist", () => {
    const inDockerfile = [...read("docker/Dockerfile").matchAll(/\b(PAYMENTS_\w+)=/g)].map(([, name = ""]) => name)
    const inKubernetes = (all("env", of("Deployment"))[0] as ReadonlyArray<unknown>).map((entry) =>
      String(at(entry, "name"))
    ) // a list, or the next line fails
    const inCompose = Object.keys(at(compose, "services", "worker", "environment") ?? {})
    const inUnit = [...read("systemd/payments-worker.service").matchAll(/^Environment=(\w+)=/gm)].map(([, name = ""]) =>
      name
    )
    const names = [...inDockerfile, ...inKubernetes, ...inCompose, ...inUnit]
    assert.isAtLeast(names.length, 6)
    assert.deepStrictEqual(names.filter((name) => !variables.includes(name) && !others.has(name)), [])
  })

  it("build with the Node of the workspace", () => {
    const version = /^ {2}node: (\S+)$/m.exec(readFileSync(join(root, "pnpm-workspace.yaml"), "utf8"))?.[1]
    assert.match(
      read("docker/Dockerfile"),
      new RegExp(`^FROM node:${version?.replaceAll(".", "\\.")}-bookworm-slim@sha256:[0-9a-f]{64} AS build$`, "m")
    )
  })

  it("name images of others by digest", () => {
    const bases = [...read("docker/Dockerfile").matchAll(/^FROM (\S+)/gm)].map(([, image = ""]) => image)
    const services = all("image", compose).map(String)
    assert.deepStrictEqual([bases.length, services.length], [2, 3])
    for (const image of [...bases, ...services]) assert.match(image, /^[\w/.:-]+@sha256:[0-9a-f]{64}$/)
  })

  it.live("probe addresses that a worker serves", () =>
    Effect.gen(function*() {
      const probed = [
        ...all("path", of("Deployment")).map(String).filter((path) => path.startsWith("/health")),
        ...[...read("docker/Dockerfile").matchAll(/127\.0\.0\.1:9464(\/[\w/]+)/g)].map(([, path = ""]) => path)
      ]
      assert.isAtLeast(probed.length, 4)
      const { port } = yield* startWorker([
        "--to",
        `sqlite:${join(mkdtempSync(join(tmpdir(), "deployment-")), "a.db")}`
      ], {
        PAYMENTS_BASE_URL: "http://127.0.0.1:1",
        PAYMENTS_API_KEY: "key"
      })
      for (const path of new Set(probed)) {
        const { status } = yield* Effect.promise(() => fetchOnce(`http://127.0.0.1:${port}${path}`))
        assert.include([200, 503], status, path)
      }
    }).pipe(Effect.scoped))

  it("run without privileges, on a read-only file system", () => {
    const pod = at(of("Deployment"), "spec", "template", "spec")
    const container = at(pod, "containers", 0, "securityContext")
    assert.deepStrictEqual(
      [
        at(pod, "securityContext", "runAsNonRoot"),
        at(pod, "automountServiceAccountToken"),
        at(container, "readOnlyRootFilesystem"),
        at(container, "allowPrivilegeEscalation"),
        at(container, "capabilities")
      ],
      [true, false, true, false, { drop: ["ALL"] }]
    )
    assert.deepStrictEqual(
      [at(compose, "services", "worker", "read_only"), at(compose, "services", "worker", "cap_drop")],
      [true, ["ALL"]]
    )
    assert.match(read("docker/Dockerfile"), /^USER 65532:65532$/m)
    // Node keeps compiled code per user, so the image fills it as this user.
    assert.match(read("docker/Dockerfile"), /setpriv --reuid=65532 --regid=65532 --clear-groups \/tmp\/warm-up/)
  })

  it("mount the files that the settings name", () => {
    const generated = [at(kustomization, "configMapGenerator", 0), at(kustomization, "secretGenerator", 0)]
    const pod = at(of("Deployment"), "spec", "template", "spec")
    assert.deepStrictEqual(
      [at(pod, "volumes", 0, "configMap", "name"), at(pod, "volumes", 1, "secret", "secretName")],
      generated.map((generator) => at(generator, "name"))
    )
    assert.include(read("kubernetes/payments.toml"), "/etc/payments/secrets/api-key")
    assert.deepStrictEqual(at(generated[1], "files"), ["secrets/api-key", "secrets/pgpass", "secrets/http-token"])
    assert.include(read("docker/payments.toml"), "/run/secrets/api_key")
    const secretsOf = (service: string) => at(compose, "services", service, "secrets")
    assert.include(secretsOf("worker"), "http_token")
    assert.strictEqual(
      at(compose, "services", "worker", "environment", "PAYMENTS_TOKEN_FILE"),
      "/run/secrets/http_token"
    )
    assert.include(secretsOf("prometheus"), "prometheus_token")
    assert.strictEqual(
      at(parse(read("docker/prometheus.yml")), "scrape_configs", 0, "authorization", "credentials_file"),
      "/run/secrets/prometheus_token"
    )
    for (const path of [...all("volumes", at(compose, "services"))].flat().map(String)) {
      const [source = ""] = path.split(":")
      if (source.startsWith(".")) assert.isTrue(existsSync(join(root, "deploy/docker", source)), source)
    }
  })

  it.live("have sources files without a mistake", () =>
    Effect.gen(function*() {
      for (const file of ["docker/payments.toml", "kubernetes/payments.toml"]) {
        const { sources } = yield* sourcesOfFile(join(root, "deploy", file))
        assert.deepStrictEqual(sources.map(({ lists, name, to }) => [name, lists.length, to?._tag]), [[
          "main",
          3,
          "Postgres"
        ]], file)
      }
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))

  it.live("have a cluster in comments, for several workers", () =>
    Effect.gen(function*() {
      for (const folder of ["docker", "kubernetes"]) {
        const text = read(`${folder}/payments.toml`)
        const place = mkdtempSync(join(tmpdir(), "cluster-"))
        const file = join(place, "payments.toml")
        writeFileSync(file, text.replace(/^# (\[cluster\]\n)# (url = )/m, "$1$2"))
        const { cluster, sources } = yield* sourcesOfFile(file)
        rmSync(place, { recursive: true })
        const { to } = sources[0] ?? assert.fail()
        assert.isDefined(cluster)
        // It is the server of the destination.
        assert.strictEqual(cluster?.url.host, to?._tag === "Postgres" ? to.url.host : undefined)
      }
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))

  it("have a systemd unit whose first lines install it, as docs/deployment.md does", () => {
    const page = readFileSync(join(root, "docs/deployment.md"), "utf8")
    const commands = Array.from(
      read("systemd/payments-worker.service").matchAll(/^# {3}((?:install|systemctl) .*)$/gm),
      ([, command = ""]) => command.replace(" payments-worker.service ", " deploy/systemd/payments-worker.service ")
    )
    assert.strictEqual(commands.length, 5)
    assert.include(page, `\n${commands.join("\n")}\n`)
  })

  it("have a systemd unit that waits longer for the worker than the worker needs, and that systemd accepts", () => {
    const unit = read("systemd/payments-worker.service")
    assert.isAbove(Number(/^TimeoutStopSec=(\d+)s$/m.exec(unit)?.[1]), 15)
    // Machines without systemd check only the line above.
    if (spawnSync("systemd-analyze", ["--version"]).status !== 0) return
    const place = mkdtempSync(join(tmpdir(), "unit-"))
    const file = join(place, "payments-worker.service")
    writeFileSync(file, unit.replace("/usr/local/bin/payments-worker", process.execPath))
    const { status, stderr } = spawnSync("systemd-analyze", ["verify", file], { encoding: "utf8" })
    rmSync(place, { recursive: true })
    assert.deepStrictEqual([status, stderr], [0, ""])
  })
})
