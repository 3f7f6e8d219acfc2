/**
 * Plugins for the bundles of the programs. They delay what most starts do not need until its first use, so that the first
 * request is sent earlier. `StartUp.test.ts` checks which modules of Node a listing has loaded by then.
 */
import type { Plugin } from "rolldown"

/** Replaces texts of a dependency. Throws if the dependency no longer has one of them. */
const replaceAll = (code: string, file: string, texts: ReadonlyArray<readonly [from: string, to: string]>): string =>
  texts.reduce((changed, [from, to]) => {
    if (!changed.includes(from)) throw new Error(`${file} no longer contains: ${from}`)
    return changed.replace(from, () => to)
  }, code)

/**
 * Loads modules of Node when a member of them is first used. A module object inherits from a proxy, because the bundler copies
 * the own properties of a module.
 */
const builtins: Plugin = {
  name: "lazy-builtins",
  resolveId: {
    filter: { id: /^node:(child_process|crypto|http|https|os|readline|stream\/consumers|zlib)$/ },
    handler: (id) => `\0lazy-${id}`
  },
  load: {
    filter: { id: /^\0lazy-node:/ },
    handler: (id) =>
      `module.exports = Object.create(new Proxy({}, {
        get: (_, name) => name === "__esModule" ? undefined : process.getBuiltinModule("${
        id.slice("\0lazy-".length)
      }")[name]
      }))`
  }
}

/**
 * The parts of undici that `packages/core/src/node.ts` and Effect's client use, instead of its index. A plain request loads neither
 * proxies, HTTP/2, nor the modules of Node for servers and assertions.
 */
const undici: Plugin = {
  name: "part-of-undici",
  load: {
    filter: { id: /\/undici\/index\.js$/ },
    handler: () => `
      const { prototype } = require("./lib/dispatcher/dispatcher")
      for (const name of ["request", "stream", "pipeline", "connect", "upgrade"]) {
        prototype[name] = function (...args) { return require("./lib/api")[name].apply(this, args) }
      }
      exports.Agent = require("./lib/dispatcher/agent")
      exports.Pool = require("./lib/dispatcher/pool")
      exports.buildConnector = require("./lib/core/connect")
      Object.defineProperty(exports, "EnvHttpProxyAgent", {
        enumerable: true,
        get: () => require("./lib/dispatcher/env-http-proxy-agent")
      })
      exports.getGlobalDispatcher = () => require("./lib/global").getGlobalDispatcher()`
  },
  transform: {
    filter: { id: /\/undici\/lib\/.*\.js$/ },
    handler: (code, id) => {
      const assertion = "const assert = require('node:assert')"
      const lazy = /\bassert\.\w/.test(code)
        ? code
        : code.replace(assertion, "const assert = (ok, message) => { if (!ok) require('node:assert')(ok, message) }")
      if (id.endsWith("/dispatcher/client.js")) {
        return replaceAll(lazy, id, [
          [
            "const connectH2 = require('./client-h2.js')",
            "const connectH2 = (...args) => require('./client-h2.js')(...args)"
          ],
          // The limit of Node, without loading its server. Only an option of Node changes it.
          [
            "const http = require('node:http')",
            `const options = [...process.execArgv, process.env.NODE_OPTIONS].join()
             const http = options.includes('max-http-header-size') ? require('node:http') : { maxHeaderSize: 16384 }`
          ]
        ])
      }
      if (id.endsWith("/core/util.js")) {
        return replaceAll(lazy, id, [
          ["const { IncomingMessage } = require('node:http')", ""],
          [".constructor === IncomingMessage", ".constructor.name === 'IncomingMessage'"]
        ])
      }
      return lazy
    }
  }
}

/** Effect's client loads both modules of Node with `createRequire`, which the bundler does not see. */
const platformHttp: Plugin = {
  name: "lazy-platform-http",
  load: {
    filter: { id: /\/@effect\/platform-node\/dist\/internal\/http\.js$/ },
    handler: () => `import * as http from "node:http"; import * as https from "node:https"; export { http, https }`
  }
}

/** Escapes characters outside ASCII. V8 stores a script of ASCII in half the memory, and Node reads it faster. */
const ascii: Plugin = {
  name: "ascii",
  generateBundle: (_, bundle) => {
    for (const file of Object.values(bundle)) {
      if (file.type !== "chunk") continue
      file.code = file.code.replaceAll(
        /[^\0-\x7f]/g,
        (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`
      )
    }
  }
}

/** {@inheritDoc lazy.ts} */
export const lazyLoading: Array<Plugin> = [builtins, undici, platformHttp, ascii]
