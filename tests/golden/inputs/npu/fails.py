def train():
    raise ValueError("no data")


train()
