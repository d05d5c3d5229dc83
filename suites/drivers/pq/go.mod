module consort.test/pq

go 1.24

require github.com/lib/pq v1.10.9
