// Requests of a web application over TypeORM with its defaults, each one in a transaction (suites/applications.sh).
// Arguments: address, number of requests. Answers to standard output, median and 99th percentile to standard error.
require('reflect-metadata')
const { DataSource, EntitySchema, In } = require('typeorm')

const id = { type: 'int', primary: true }
const Customer = new EntitySchema({
  name: 'customer',
  columns: { id, name: { type: 'text' }, visits: { type: 'int' } },
  relations: { orders: { type: 'one-to-many', target: 'purchase', inverseSide: 'customer' } },
})
const Order = new EntitySchema({
  name: 'purchase',
  columns: { id, amount: { type: 'int' } },
  relations: { customer: { type: 'many-to-one', target: 'customer', inverseSide: 'orders', joinColumn: { name: 'customer_id' } } },
})

async function request(source, number) {
  return source.transaction(async (manager) => {
    const customer = await manager.findOneByOrFail(Customer, { id: (number % 200) + 1 })
    const ids = In([(number % 50) + 1, (number % 60) + 101])
    const eager = await manager.find(Customer, { where: { id: ids }, relations: { orders: true }, order: { id: 'ASC' } })
    const where = { customer: { id: customer.id } }
    const total = await manager.sum(Order, 'amount', where)
    const orders = await manager.find(Order, { where, order: { id: 'ASC' } })
    const amounts = orders.map((order) => order.amount).join()
    const answer = `${customer.name} ${customer.visits} ${amounts} ${eager.map((one) => one.orders.length).join()} ${total}`
    if (number % 10 === 0) {
      await manager.update(Customer, { id: customer.id }, { visits: customer.visits + 1 })
      await manager.insert(Order, { id: 10000 + number, customer, amount: number })
    }
    return answer
  })
}

async function main() {
  const source = new DataSource({ type: 'postgres', url: process.argv[2], entities: [Customer, Order] })
  await source.initialize()
  const count = Number(process.argv[3])
  const times = []
  for (let number = 0; number < count; number++) {
    const begun = performance.now()
    const answer = await request(source, number)
    times.push(performance.now() - begun)
    console.log(number, answer)
  }
  times.sort((a, b) => a - b)
  console.error(times[Math.floor(count / 2)].toFixed(2), times[Math.floor((count * 99) / 100)].toFixed(2))
  await source.destroy()
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
