/** A file system in which one call fails. */
import { Effect, FileSystem, Layer, PlatformError } from "effect"

/**
 * The call with this number fails; with `lasting`, all later calls fail too. A failing write writes half of its bytes.
 */
export class Fault {
  readonly call: number
  readonly lasting: boolean
  readonly code: "EIO" | "ENOSPC"
  calls = 0

  constructor(call: number, lasting: boolean, code: "EIO" | "ENOSPC") {
    this.call = call
    this.lasting = lasting
    this.code = code
  }

  get reached(): boolean {
    return this.calls >= this.call
  }

  /** Counts a call and returns whether it fails. */
  next(): boolean {
    this.calls++
    return this.lasting ? this.calls >= this.call : this.calls === this.call
  }
}

/** Counts only the calls that the sink makes. */
export const layerFailing = (fault: Fault): Layer.Layer<FileSystem.FileSystem, never, FileSystem.FileSystem> =>
  Layer.effect(
    FileSystem.FileSystem,
    Effect.map(FileSystem.FileSystem, (fs): FileSystem.FileSystem => {
      const fail = (method: string) =>
        Effect.fail(PlatformError.systemError({
          _tag: "Unknown",
          module: "FileSystem",
          method,
          cause: Object.assign(new Error(fault.code), { code: fault.code })
        }))
      const withFault = <A, E, R>(method: string, call: Effect.Effect<A, E, R>) =>
        Effect.suspend((): Effect.Effect<A, E | PlatformError.PlatformError, R> => fault.next() ? fail(method) : call)
      const file = (real: FileSystem.File): FileSystem.File => ({
        ...real,
        sync: withFault("sync", real.sync),
        writeAll: (bytes) =>
          Effect.suspend(() =>
            fault.next()
              ? Effect.andThen(real.writeAll(bytes.subarray(0, bytes.length >> 1)), fail("writeAll"))
              : real.writeAll(bytes)
          )
      })
      return {
        ...fs,
        makeDirectory: (path, options) => withFault("makeDirectory", fs.makeDirectory(path, options)),
        open: (path, options) => withFault("open", Effect.map(fs.open(path, options), file)),
        readDirectory: (path, options) => withFault("readDirectory", fs.readDirectory(path, options)),
        readFile: (path) => withFault("readFile", fs.readFile(path)),
        remove: (path, options) => withFault("remove", fs.remove(path, options)),
        rename: (from, to) => withFault("rename", fs.rename(from, to)),
        stat: (path) => withFault("stat", fs.stat(path))
      }
    })
  )
