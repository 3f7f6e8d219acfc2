/** The code of the worker thread in which the sinks of stored destinations run. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { Layer } from "effect"
import { serve } from "../thread/ServedSink.ts"
import { fromMessage, layerInThisThread } from "./Destination.ts"

const platform = Layer.mergeAll(NodeFileSystem.layer, NodePath.layer)

serve((message) => Layer.provide(layerInThisThread(fromMessage(message)), platform))
