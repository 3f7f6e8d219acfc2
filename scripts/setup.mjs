/**
 * Installs the packages of the workspace, unless a complete installation of this lockfile exists. Runs on Node 20 and later,
 * and imports no package. The environment of the installers contains no key and no password.
 */
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, lstatSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { delimiter, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const modules = join(root, "node_modules")
/** A file that is written last. An installation without it is incomplete. */
const stampFile = join(modules, ".payments-setup.json")
/** The folder of a damaged installation, until a new one succeeds. */
const setAside = join(root, ".node_modules.old")

const packages = ["packages", "apps"].flatMap((folder) =>
  readdirSync(join(root, folder)).map((name) => join(root, folder, name)).filter((path) =>
    existsSync(join(path, "package.json"))
  )
)

/** Returns a hash of all files that determine the installation. */
const inputs = () => {
  const hash = createHash("sha256").update(`${process.platform} ${process.arch}`)
  const names = ["pnpm-lock.yaml", "pnpm-workspace.yaml", ".npmrc", "package.json"]
  for (
    const file of [
      ...names.map((name) => join(root, name)),
      ...packages.map((path) => join(path, "package.json"))
    ]
  ) {
    hash.update(`\0${file.slice(root.length)}\0`)
    if (existsSync(file)) hash.update(readFileSync(file))
  }
  return hash.digest("hex")
}

/** Counts the files and folders in a folder. Does not follow links. */
const countOf = (folder) =>
  readdirSync(folder, { withFileTypes: true }).reduce(
    (count, entry) => count + 1 + (entry.isDirectory() ? countOf(join(folder, entry.name)) : 0),
    0
  )

/** Counts the files of each installed package, to detect a partly deleted installation. */
const contents = () => {
  const counts = {}
  const store = join(modules, ".pnpm")
  for (const parent of [modules, store, ...packages.map((path) => join(path, "node_modules"))]) {
    if (!existsSync(parent)) continue
    for (const entry of readdirSync(parent, { withFileTypes: true })) {
      const path = join(parent, entry.name)
      // Tools create and delete their caches in this folder.
      if (path === store || path === stampFile || /^\.(cache|vite|vitest)/.test(entry.name)) continue
      counts[path.slice(root.length)] = entry.isDirectory() ? countOf(path) : 1
    }
  }
  return counts
}

const readStamp = () => {
  try {
    return JSON.parse(readFileSync(stampFile, "utf8"))
  } catch {
    return undefined // there is none, or it is truncated
  }
}

/** Whether all installed files still exist, and the installed Node runs on this machine. */
const isComplete = (stamp) => {
  const current = contents()
  return Object.entries(stamp.contents ?? {}).every(([path, count]) => current[path] >= count) &&
    spawnSync(join(modules, "node/bin/node"), ["--version"]).status === 0
}

/** Returns the environment of the installers: no secrets, no programs of this workspace, short timeouts for the registry. */
const environment = () => {
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(PAYMENTS_|PGPASS)/.test(name))
  )
  return {
    // The versions are exact, so a cached copy equals the registry's.
    npm_config_prefer_offline: "true",
    npm_config_fetch_retries: "3",
    npm_config_fetch_retry_factor: "2",
    npm_config_fetch_retry_mintimeout: "500",
    npm_config_fetch_retry_maxtimeout: "4000",
    npm_config_fetch_timeout: "60000",
    ...env,
    npm_config_loglevel: "error",
    PATH: (process.env.PATH ?? "").split(delimiter).filter((folder) => !folder.startsWith(modules)).join(delimiter)
  }
}

/** Matches the output of npm and pnpm if the registry cannot be reached. */
const unreachable =
  /ENOTFOUND|EAI_AGAIN|ECONN(REFUSED|RESET)|ETIMEDOUT|E(NET|HOST)UNREACH|EPIPE|SOCKET_TIMEOUT|CONNECT_TIMEOUT|ENOTCACHED|META_FETCH_FAIL/

const install = () => {
  const { packageManager } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
  return spawnSync(
    "npx",
    ["--yes", packageManager, "install", "--frozen-lockfile", "--loglevel=error", "--config.confirmModulesPurge=false"],
    { cwd: root, env: environment(), encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], maxBuffer: 2 ** 30 }
  )
}

const wanted = inputs()
const stamp = readStamp()
const isIntact = stamp !== undefined && isComplete(stamp)
if (stamp?.inputs !== wanted || !isIntact) {
  console.log("Installing…")
  // pnpm does not repair a package that has lost some of its files. So it installs into an empty folder.
  if (!isIntact && lstatSync(modules, { throwIfNoEntry: false }) !== undefined) {
    if (existsSync(setAside)) rmSync(modules, { recursive: true, force: true })
    else renameSync(modules, setAside)
  }
  rmSync(stampFile, { force: true })
  const { error, status, stderr, stdout } = install()
  if (status === 0) {
    writeFileSync(stampFile, JSON.stringify({ inputs: wanted, contents: contents() }))
    rmSync(setAside, { recursive: true, force: true })
  } else {
    const output = `${stdout ?? ""}${stderr ?? ""}${error === undefined ? "" : `npx: ${error.message}\n`}`
    console.error(
      unreachable.test(output)
        ? "Packages are missing, and the package registry cannot be reached. Connect to the network, or correct npm's registry and proxy settings, and run this again."
        : output.trimEnd()
    )
    if (existsSync(setAside)) {
      rmSync(modules, { recursive: true, force: true })
      renameSync(setAside, modules)
    }
    process.exitCode = 1
  }
}
