import { program } from "./bundle.ts"

export default program("payments", import.meta.dirname)
