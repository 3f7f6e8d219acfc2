import { layerTest } from "../src/testing.ts"
import { suite } from "./PaymentsApiTest.ts"

suite("layerTest", layerTest)
