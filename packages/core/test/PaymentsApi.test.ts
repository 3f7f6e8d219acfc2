import { PaymentsApi } from "../src/index.ts"
import { suite } from "./PaymentsApiTest.ts"

suite("layerTest", PaymentsApi.layerTest)
