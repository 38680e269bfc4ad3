def use(resource, work):
    try:
        return work(resource)
    finally:
        resource.close()
