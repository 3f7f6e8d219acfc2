import { suite } from "@payments/testkit/PaymentsApiTest"
import { layerTest } from "../../src/testing.ts"

suite("layerTest", layerTest)
